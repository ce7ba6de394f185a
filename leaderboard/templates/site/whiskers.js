// Intervals as small graphics on one axis a column, with the retrained model's value as a line through all of them.

const WIDTH = 108;
const HEIGHT = 12;
const EDGE = 5;

// The span that a column's graphics share: all means, and intervals as far as the metric's own range goes.
function axisOf(cells, measure, oracle) {
  const points = [];
  for (const cell of cells) {
    for (const value of [cell.mean, cell.low, cell.high]) if (value !== null && value !== undefined) points.push(value);
  }
  if (oracle !== null) points.push(oracle);
  if (!points.length) return null;
  let low = Math.min(...points);
  let high = Math.max(...points);
  if (measure.low !== null) low = Math.max(low, measure.low);
  if (measure.high !== null) high = Math.min(high, measure.high);
  if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
  return { low, high, oracle, at: (value) => EDGE + ((value - low) / (high - low)) * (WIDTH - 2 * EDGE) };
}

function within(axis, value) {
  return Math.max(1, Math.min(WIDTH - 1, axis.at(Math.max(axis.low, Math.min(axis.high, value)))));
}

function oracleLine(axis) {
  if (axis.oracle === null || axis.oracle < axis.low || axis.oracle > axis.high) return null;
  const x = axis.at(axis.oracle).toFixed(1);
  return svg('line', { class: 'oracle', x1: x, x2: x, y1: 0, y2: HEIGHT });
}

function whisker(cell, axis, measure) {
  const words =
    cell.low === null
      ? 'one seed, no interval'
      : `${percent(data.protocol.confidence)} interval ${fixed(cell.low, measure.decimals)} to ${fixed(cell.high, measure.decimals)}`;
  const middle = HEIGHT / 2;
  const bar =
    cell.low === null
      ? null
      : svg('line', { class: 'bar', x1: within(axis, cell.low).toFixed(1), x2: within(axis, cell.high).toFixed(1), y1: middle, y2: middle });
  return svg(
    'svg',
    { class: 'whisker', role: 'img', 'aria-label': words, width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
    svg('line', { class: 'ground', x1: EDGE, x2: WIDTH - EDGE, y1: middle, y2: middle }),
    oracleLine(axis),
    bar,
    svg('circle', { class: 'dot', cx: axis.at(Math.max(axis.low, Math.min(axis.high, cell.mean))).toFixed(1), cy: middle, r: 3 }),
  );
}

// The axis itself, below a column's head.
function axisHead(axis, measure) {
  const near = Math.min(measure.decimals, 3);
  const words = `Axis from ${fixed(axis.low, near)} to ${fixed(axis.high, near)}`;
  return el(
    'span',
    { class: 'axis', role: 'img', 'aria-label': words },
    el('span', { 'aria-hidden': 'true' }, fixed(axis.low, near)),
    el('span', { 'aria-hidden': 'true' }, fixed(axis.high, near)),
  );
}
