// The trade that every method makes: how far its forgetting is from retraining, against what it keeps.

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((one) => one >= raw);
  const out = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + 1e-9 * step; count += 1) out.push(Number((count * step).toPrecision(10)));
  return out;
}

function plotPoints(block) {
  return block.rows
    .filter((row) => row.point.gap !== null && row.point.kept !== null)
    .map((row) => ({ row, x: Math.abs(row.point.gap), y: row.point.kept, front: row.point.front, anchor: [block.oracle, block.baseline].includes(row.label) }));
}

function plotFrame(points, width) {
  const height = Math.round(Math.max(290, Math.min(560, width * 1.1)));
  const edges = { left: 50, right: 16, top: 12, bottom: 44 };
  // References far below every method would press the methods together: they stand at the edge, and say so.
  const near = points.filter((point) => point.row.kind !== 'reference' || point.anchor);
  const ys = (near.length ? near : points).map((point) => point.y);
  const room = (Math.max(...ys) - Math.min(...ys) || 0.01) * 0.1;
  const [low, high] = [Math.max(0, Math.min(...ys) - room), Math.max(...ys) + room];
  const most = Math.max(...points.map((point) => point.x)) * 1.12 || 0.01;
  return {
    width, height, edges, low, high, most,
    x: (value) => edges.left + (value / most) * (width - edges.left - edges.right),
    y: (value) => height - edges.bottom - ((Math.max(low, Math.min(high, value)) - low) / (high - low)) * (height - edges.top - edges.bottom),
  };
}

function plotAxes({ width, height, edges, most, low, high, x, y }) {
  const places = (values) => Math.max(0, ...values.map((value) => (String(value).split('.')[1] || '').length));
  const [across, up] = [ticks(0, most, width < 420 ? 3 : 5), ticks(low, high, 5)];
  const text = (kind, attributes, words) => svg('text', { class: kind, ...attributes }, words);
  return [
    up.map((value) => [svg('line', { class: 'grid', x1: edges.left, x2: width - edges.right, y1: y(value), y2: y(value) }), text('tick', { x: edges.left - 6, y: y(value), dy: '0.32em', 'text-anchor': 'end' }, value.toFixed(places(up)))]),
    across.map((value) => [svg('line', { class: value ? 'grid' : 'oracle', x1: x(value), x2: x(value), y1: edges.top, y2: height - edges.bottom }), text('tick', { x: x(value), y: height - edges.bottom + 16, 'text-anchor': 'middle' }, value.toFixed(places(across)))]),
    text('axis-name', { x: (edges.left + width - edges.right) / 2, y: height - 8, 'text-anchor': 'middle' }, width < 420 ? '|forget HR@10 − retrain|' : 'Distance of forget HR@10 from retraining, worst case'),
    text('axis-name', { transform: `translate(12 ${(edges.top + height - edges.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, 'Retain NDCG@10 ↑'),
  ];
}

// Labels go where they cover nothing; a point without room for one still says its name to whoever points at it.
function plotLabels(frame, points) {
  const taken = points.map((point) => [frame.x(point.x) - 6, frame.y(point.y) - 6, frame.x(point.x) + 6, frame.y(point.y) + 6]);
  const free = (box) => box[0] >= frame.edges.left - 2 && box[2] <= frame.width - 2 && box[1] >= 2 && box[3] <= frame.height - frame.edges.bottom - 1 && taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  const out = new Map();
  for (const point of [...points].sort((a, b) => b.front - a.front || b.anchor - a.anchor || a.x - b.x)) {
    const letters = [...point.row.label];
    const text = (letters.length > 22 ? `${letters.slice(0, 21).join('')}…` : point.row.label) + (point.y < frame.low ? ` ↓ ${fixed(point.y, 3)}` : '');
    const [x, y, wide] = [frame.x(point.x), frame.y(point.y), text.length * 6.7];
    for (const [dx, dy] of [[1, 0], [-1, 0], [1, -10], [1, 10], [-1, -10], [-1, 10], [0, -14], [0, 14], [1, -20], [1, 20], [1, -31], [1, 31], [1, -42], [1, 42]]) {
      const left = dx > 0 ? x + 8 : dx < 0 ? x - 8 - wide : x - wide / 2;
      const box = [left, y + dy - 6, left + wide, y + dy + 6];
      if (!free(box)) continue;
      taken.push(box);
      out.set(point, { text, left, y: y + dy, leader: Math.abs(dy) > 14 });
      break;
    }
  }
  return out;
}

function plotMark(frame, point, label) {
  const [x, y, { row }] = [frame.x(point.x), frame.y(point.y), point];
  const words = `${row.label}: forget HR@10 ${signed(row.point.gap, 4)} from retraining, retain NDCG@10 ${fixed(row.point.kept, 4)}, ${row.kind}${point.front ? ', on the front' : ''}`;
  const shape = row.kind === 'method' ? svg('circle', { class: 'mark', cx: x, cy: y, r: 4.6 }) : svg('rect', { class: `mark ${row.kind}`, x: x - 4, y: y - 4, width: 8, height: 8 });
  return svg(
    'a', { href: `#/method/${encodeURIComponent(row.method)}`, class: `point${point.front ? ' front' : ''}`, 'aria-label': words },
    svg('title', {}, words),
    label && label.leader ? svg('line', { class: 'leader', x1: x, y1: y, x2: label.left - 2, y2: label.y }) : null,
    svg('circle', { class: 'halo', cx: x, cy: y, r: 12 }), shape,
    label ? svg('text', { class: 'tag', x: label.left, y: label.y, dy: '0.34em' }, label.text) : null,
  );
}

function drawPlot(holder, block) {
  const points = plotPoints(block);
  if (points.length < 2) return replace(holder, el('p', { class: 'quiet' }, 'No plot: it needs forget HR@10 and retain NDCG@10 of a retrained model and of another row.'));
  const frame = plotFrame(points, Math.max(280, Math.min(900, holder.clientWidth || 560)));
  const labels = plotLabels(frame, points);
  const front = points.filter((point) => point.front).sort((a, b) => a.x - b.x || a.y - b.y);
  const path = front.map((point, place) => `${place ? `H${frame.x(point.x).toFixed(1)}V` : `M${frame.x(point.x).toFixed(1)} `}${frame.y(point.y).toFixed(1)}`).join('');
  const sign = (...shapes) => svg('svg', { width: 14, height: 14, 'aria-hidden': 'true' }, shapes);
  return replace(
    holder,
    svg('svg', { class: 'plot', width: frame.width, height: frame.height, role: 'group', 'aria-label': 'Forgetting against what is kept' }, plotAxes(frame), svg('path', { class: 'frontier', d: path }), points.map((point) => plotMark(frame, point, labels.get(point)))),
    el('figcaption', {}, el('span', {}, sign(svg('circle', { class: 'mark', cx: 7, cy: 7, r: 4.6 })), 'method'), el('span', {}, sign(svg('rect', { class: 'mark control', x: 3, y: 3, width: 8, height: 8 })), 'control'), el('span', {}, sign(svg('rect', { class: 'mark reference', x: 3, y: 3, width: 8, height: 8 })), 'reference'), el('span', {}, sign(svg('path', { class: 'frontier', d: 'M1 12V5H13' })), 'no method is better on both')),
  );
}
