// The trade that every method makes: how far its forgetting is from a retrained model's, against what it keeps.

const NEAR = 8;
const LETTER = 6.7;

function paretoMeasures(options) {
  const beam = Number(options.get('beam')) || data.protocol.beam;
  const kept = options.get('y') === 'hr' ? 'retain:hr@10' : 'retain:ndcg@10';
  return { x: measureAt(`forget:hr@10/${beam}`), y: measureAt(`${kept}/${beam}`), beam };
}

// One point a row: the distance of its forget HR@10 from the retrained model's, seed by seed, and what is retained.
function paretoPoints(block, measures) {
  const here = data.blocks[block];
  if (measures.x < 0 || measures.y < 0 || here.oracle === null) return [];
  const oracle = valuesOf(block, measures.x, here.oracle);
  return here.label
    .map((label, row) => {
      const gaps = differences(valuesOf(block, measures.x, row), oracle);
      const kept = valuesOf(block, measures.y, row);
      const gap = summary(gaps, data.protocol.t).mean;
      return { label, row, gaps, kept, gap, x: gap === null ? null : Math.abs(gap), y: summary(kept, data.protocol.t).mean };
    })
    .map((point) => ({ ...point, reference: here.kind[point.row] === 'r', anchor: [here.oracle, here.baseline].includes(point.row), diverged: point.row in here.diverged }))
    .filter((point) => point.x !== null && point.y !== null);
}

// Methods that no other method beats on both counts, from the nearest to the farthest.
function paretoFront(points) {
  const ranked = points.filter((point) => !point.reference && !point.diverged);
  const beaten = (point) =>
    ranked.some((other) => other.x <= point.x && other.y >= point.y && (other.x < point.x || other.y > point.y));
  return ranked.filter((point) => !beaten(point)).sort((a, b) => a.x - b.x || b.y - a.y);
}

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((one) => one >= raw) || raw;
  const out = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) out.push(Number((at * step).toPrecision(10)));
  return out;
}

function paretoFrame(points, options, width) {
  const height = Math.round(Math.max(300, Math.min(430, width * 0.62)));
  const edges = { left: 54, right: 18, top: 14, bottom: 46 };
  const seeds = flag(options, 'dots', false);
  // Reference rows far below every method would press the methods together: they stand at the edge, and say so.
  const near = points.filter((p) => !p.reference || p.anchor);
  const xs = points.flatMap((p) => [p.x, ...(seeds ? finite(p.gaps).map(Math.abs) : [])]);
  const ys = (near.length ? near : points).flatMap((p) => [p.y, ...(seeds ? finite(p.kept) : [])]);
  const xMost = Math.max(...xs) * 1.12 || 0.01;
  const [yLeast, yMost] = [Math.min(...ys), Math.max(...ys)];
  const room = (yMost - yLeast || yMost || 0.01) * 0.1;
  const low = Math.max(0, yLeast - room);
  const high = yMost + room;
  return {
    width, height, edges, seeds, xMost, low, high,
    x: (value) => edges.left + (value / xMost) * (width - edges.left - edges.right),
    y: (value) => height - edges.bottom - ((Math.max(low, Math.min(high, value)) - low) / (high - low)) * (height - edges.top - edges.bottom),
  };
}

function paretoAxes(frame, measures) {
  const { width, height, edges } = frame;
  const out = [];
  const places = (values) => Math.max(0, ...values.map((value) => (String(value).split('.')[1] || '').length));
  const across = ticks(0, frame.xMost, width < 420 ? 3 : 6);
  const up = ticks(frame.low, frame.high, 5);
  for (const value of up) {
    const y = frame.y(value).toFixed(1);
    out.push(svg('line', { class: 'grid', x1: edges.left, x2: width - edges.right, y1: y, y2: y }));
    out.push(svg('text', { class: 'tick', x: edges.left - 7, y, dy: '0.32em', 'text-anchor': 'end' }, value.toFixed(places(up))));
  }
  for (const value of across) {
    const x = frame.x(value).toFixed(1);
    out.push(svg('line', { class: value === 0 ? 'oracle' : 'grid', x1: x, x2: x, y1: edges.top, y2: height - edges.bottom }));
    out.push(svg('text', { class: 'tick', x, y: height - edges.bottom + 17, 'text-anchor': 'middle' }, value.toFixed(places(across))));
  }
  const under = width < 420 ? '|forget HR@10 − retrain|' : `Distance of forget HR@10 from ${data.protocol.oracle} (0 = forgotten as by retraining)`;
  out.push(svg('text', { class: 'axis-name', x: (edges.left + width - edges.right) / 2, y: height - 8, 'text-anchor': 'middle' }, under));
  const middle = (edges.top + height - edges.bottom) / 2;
  out.push(svg('text', { class: 'axis-name', transform: `translate(13 ${middle}) rotate(-90)`, 'text-anchor': 'middle' }, `Retain ${data.measures[measures.y].title} ↑`));
  return out;
}

function shape(point, x, y) {
  if (point.reference) return svg('rect', { class: 'mark reference', x: x - 4, y: y - 4, width: 8, height: 8 });
  if (point.gap < 0) return svg('path', { class: 'mark', d: `M${x} ${y - 5.5}L${x + 5.5} ${y}L${x} ${y + 5.5}L${x - 5.5} ${y}Z` });
  return svg('circle', { class: 'mark', cx: x, cy: y, r: 4.6 });
}

// Labels go where they cover nothing; where no place is free the tooltip has to do.
function placeLabels(frame, points, line) {
  const taken = points.map((p) => [frame.x(p.x) - 6, frame.y(p.y) - 6, frame.x(p.x) + 6, frame.y(p.y) + 6]);
  line.slice(1).forEach((p, at) => {
    const [left, right, y] = [frame.x(line[at].x), frame.x(p.x), frame.y(line[at].y)];
    if (right - left > 14) taken.push([left + 6, y - 1, right - 2, y + 1]);
  });
  const out = new Map();
  const free = (box) =>
    box[0] >= frame.edges.left - 2 && box[2] <= frame.width - 2 && box[1] >= 2 && box[3] <= frame.height - frame.edges.bottom - 1 &&
    taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  for (const point of [...points].sort((a, b) => b.front - a.front || b.anchor - a.anchor || a.x - b.x)) {
    const text = shortened(point.label) + (point.y < frame.low ? ` ↓ ${fixed(point.y, 3)}` : '');
    const [x, y, wide] = [frame.x(point.x), frame.y(point.y), text.length * LETTER];
    for (const distance of [0, 9, 18, 28, 40, 54]) {
      const found = [[1, 0], [-1, 0], [1, -1], [1, 1], [-1, -1], [-1, 1], [0, -1], [0, 1]].find(([dx, dy]) => {
        if (distance && !dy) return false;
        const left = dx > 0 ? x + NEAR : dx < 0 ? x - NEAR - wide : x - wide / 2;
        const centre = y + dy * (dx ? 4 + distance : 13 + distance);
        const box = [left, centre - 6, left + wide, centre + 6];
        if (!free(box)) return false;
        taken.push(box);
        out.set(point.row, { text, left, centre, far: distance > 9, x, y, edge: dx > 0 ? left - 2 : left + wide + 2 });
        return true;
      });
      if (found) break;
    }
  }
  return out;
}

function shortened(text) {
  const letters = [...text];
  return letters.length > 22 ? `${letters.slice(0, 21).join('')}…` : text;
}

function paretoWords(point, measures) {
  const side = point.gap > 0 ? 'remembers more than' : point.gap < 0 ? 'names fewer than' : 'equals';
  const kept = data.measures[measures.y];
  return [
    `Forget HR@10 ${signed(point.gap, 4)} from ${data.protocol.oracle} (${side} it)`,
    `${kept.side} ${kept.title} ${fixed(point.y, 4)}`,
    `${plural(finite(point.gaps).length, 'seed')}${point.reference ? ', reference row' : ''}${point.front ? ', on the front' : ''}${point.diverged ? ', diverged' : ''}`,
  ];
}

function paretoMark(frame, point, label, measures, tip) {
  const [x, y] = [frame.x(point.x), frame.y(point.y)];
  const words = paretoWords(point, measures);
  const show = () => tip.show(x, y, point.label, words);
  const method = data.blocks[tip.block].method[point.row];
  // A finger cannot hover: its first tap shows the point, the second follows the link.
  const tap = (event) => {
    if (event.pointerType !== 'touch' || tip.tapped === point.row) return;
    event.preventDefault();
    tip.tapped = point.row;
    show();
  };
  return svg(
    'a',
    {
      href: address('method', method), class: `point${point.front ? ' front' : ''}`, 'aria-label': `${point.label}: ${words.join('; ')}`,
      onpointerenter: show, onfocus: show, onpointerleave: tip.hide, onblur: tip.hide, onclick: tap,
    },
    frame.seeds ? point.gaps.map((gap, seed) => seedDot(frame, gap, point.kept[seed])) : null,
    label && label.far ? svg('line', { class: 'leader', x1: x, y1: y, x2: label.edge, y2: label.centre }) : null,
    svg('circle', { class: 'halo', cx: x, cy: y, r: 9 }),
    shape(point, x, y),
    label ? svg('text', { class: 'tag', x: label.left, y: label.centre, dy: '0.34em' }, label.text) : null,
  );
}

function seedDot(frame, gap, kept) {
  if (gap === null || kept === null) return null;
  return svg('circle', { class: 'seed', cx: frame.x(Math.abs(gap)), cy: frame.y(kept), r: 2 });
}

function tooltip(block) {
  const node = el('div', { class: 'tip', role: 'tooltip', hidden: true });
  return {
    node, block, tapped: null,
    show(x, y, label, words) {
      replace(node, el('strong', {}, name(label)), words.map((line) => el('span', {}, line)));
      node.hidden = false;
      const limit = node.parentElement.clientWidth - node.offsetWidth - 4;
      node.style.left = `${Math.max(0, Math.min(limit, x + 12))}px`;
      node.style.top = `${Math.max(0, y - node.offsetHeight - 12)}px`;
    },
    hide() {
      node.hidden = true;
    },
  };
}

function drawPareto(holder, block, options) {
  const measures = paretoMeasures(options);
  const points = paretoPoints(block, measures);
  if (points.length < 2) return replace(holder, el('p', { class: 'quiet' }, `No plot: it needs forget HR@10 and retain metrics of a row ${data.protocol.oracle} and of at least one other.`));
  const front = new Set(paretoFront(points).map((point) => point.row));
  for (const point of points) point.front = front.has(point.row);
  const width = Math.max(280, Math.min(1100, holder.clientWidth || 640));
  const frame = paretoFrame(points, options, width);
  const line = points.filter((point) => point.front).sort((a, b) => a.x - b.x || a.y - b.y);
  const labels = placeLabels(frame, points, line);
  const tip = tooltip(block);
  const steps = line.map((p, at) => `${at ? `H${frame.x(p.x).toFixed(1)}V` : `M${frame.x(p.x).toFixed(1)} `}${frame.y(p.y).toFixed(1)}`).join('');
  const names = list(line.map((point) => point.label));
  const picture = svg(
    'svg',
    { class: 'pareto', width, height: frame.height, viewBox: `0 0 ${width} ${frame.height}`, role: 'group', 'aria-label': `Forget gap against what is retained; on the Pareto front: ${names}` },
    paretoAxes(frame, measures),
    svg('path', { class: 'frontier', d: steps }),
    points.map((point) => paretoMark(frame, point, labels.get(point.row), measures, tip)),
  );
  picture.addEventListener('keydown', (event) => event.key === 'Escape' && tip.hide());
  return replace(holder, el('div', { class: 'plot' }, picture, tip.node), paretoLegend(line));
}

function paretoLegend(front) {
  const sign = (...shapes) => svg('svg', { class: 'sign', width: 14, height: 14, viewBox: '0 0 14 14', 'aria-hidden': 'true' }, shapes);
  return el(
    'figcaption',
    {},
    el('span', { class: 'key' }, sign(svg('circle', { class: 'mark', cx: 7, cy: 7, r: 4.6 })), 'method, remembers more than retrain'),
    el('span', { class: 'key' }, sign(svg('path', { class: 'mark', d: 'M7 1.5L12.5 7L7 12.5L1.5 7Z' })), 'names fewer forget items than retrain'),
    el('span', { class: 'key' }, sign(svg('rect', { class: 'mark reference', x: 3, y: 3, width: 8, height: 8 })), 'reference'),
    el('span', { class: 'key' }, sign(svg('path', { class: 'frontier', d: 'M1 12V5H13' })), el('span', {}, 'Pareto front: ', front.length ? front.map((point, at) => [at ? ', ' : '', name(point.label)]) : 'none')),
  );
}
