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
  const height = Math.round(Math.max(290, Math.min(600, width * (points.length > 20 ? 1.25 : 1.1))));
  const edges = { left: 58, right: 16, top: 12, bottom: 44 };
  // Many points stand at a distance of 0: left of them is room for a number.
  const zero = edges.left + 18;
  // References far above or below every method would press the methods together: they stand at the edge, with their value.
  const near = points.filter((point) => point.row.kind !== 'reference' || point.anchor);
  const ys = (near.length ? near : points).map((point) => point.y);
  const room = (Math.max(...ys) - Math.min(...ys) || 0.01) * 0.1;
  const [low, high] = [Math.max(0, Math.min(...ys) - room), Math.max(...ys) + room];
  const most = Math.max(...points.map((point) => point.x)) * 1.12 || 0.01;
  return {
    width, height, edges, low, high, most,
    x: (value) => zero + (value / most) * (width - zero - edges.right),
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
    text('axis-name', { transform: `translate(11 ${(edges.top + height - edges.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, 'Retain NDCG@10 ↑'),
  ];
}

const edgeText = (frame, { y }) => (y < frame.low ? ` ↓ ${fixed(y, 3)}` : y > frame.high ? ` ↑ ${fixed(y, 3)}` : '');

// Places for the near end of a label, nearest first; a leader line goes to those that are not beside the point.
const LABEL_PLACES = [[8, 0], [-8, 0], [7, -9], [7, 9], [-7, -9], [-7, 9], [0, -14], [0, 14]].map(([dx, dy]) => [dx, dy, false]).concat(
  [20, 27, 35, 44, 54, 65, 78, 92, 108].flatMap((radius) => [0, 30, -30, 150, -150, 180, 60, -60, 120, -120, 90, -90].map((angle) => [radius * Math.cos((angle * Math.PI) / 180), radius * Math.sin((angle * Math.PI) / 180), true])),
);

// Labels cover neither points nor each other nor leader lines. Retraining, the original, TRACER and the front come first;
// a point without room for its name gets a number, which is explained below the plot.
function plotLabels(frame, points) {
  const pen = document.createElement('canvas').getContext('2d');
  const family = getComputedStyle(document.body).fontFamily;
  const boxes = points.map((point) => [frame.x(point.x) - 6, frame.y(point.y) - 6, frame.x(point.x) + 6, frame.y(point.y) + 6]);
  const inside = (box) => box[0] >= frame.edges.left - 2 && box[2] <= frame.width - 2 && box[1] >= 1 && box[3] <= frame.height - frame.edges.bottom - 1;
  const apart = (box, other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3];
  const out = new Map();
  const put = (point, text, places, clear = 9) => {
    const [x, y] = [frame.x(point.x), frame.y(point.y)];
    pen.font = `${point.front ? 650 : 400} 11.5px ${family}`;
    const wide = pen.measureText(text).width + 2;
    for (const [dx, dy, leader] of places) {
      const left = x + dx - (Math.abs(dx) < 5 ? wide / 2 : dx < 0 ? wide : 0);
      const box = [left, y + dy - 6, left + wide, y + dy + 6];
      const away = Math.hypot(dx, dy);
      const line = Array.from({ length: leader ? Math.max(0, Math.ceil((away - clear) / 5)) : 0 }, (_, step) => (clear + 5 * step) / away).map((part) => [x + dx * part, y + dy * part]).map(([u, v]) => [u - 2, v - 2, u + 2, v + 2]);
      // What has a leader line keeps away from the points that it could be taken for.
      const wider = leader ? [box[0] - 5, box[1], box[2] + 5, box[3]] : box;
      if (!inside(box) || ![wider, ...line].every((one) => boxes.every((other) => apart(one, other)))) continue;
      boxes.push(box, ...line);
      out.set(point, { text, left, y: y + dy, end: leader ? [x + dx, y + dy] : null });
      return true;
    }
    return false;
  };
  const rank = (point) => (point.anchor || point.row.label === 'tracer' ? 0 : point.front ? 1 : edgeText(frame, point) ? 2 : 3);
  const rest = [...points].sort((a, b) => rank(a) - rank(b) || a.x - b.x).filter((point) => {
    const letters = [...point.row.label];
    const text = (letters.length > 22 ? `${letters.slice(0, 21).join('')}…` : point.row.label) + edgeText(frame, point);
    const far = rank(point) < 3 || frame.width > 420;
    // In a crowd, leader lines may begin across other points.
    return !put(point, text, far ? LABEL_PLACES : LABEL_PLACES.slice(0, 32)) && !(rank(point) < 2 && put(point, text, LABEL_PLACES, 30));
  });
  rest.sort((a, b) => a.x - b.x).forEach((point, place) => {
    const number = String(place + 1);
    if (![9, 30, 99].some((clear) => put(point, number, LABEL_PLACES, clear))) out.set(point, { text: number, left: frame.x(point.x) + 7, y: frame.y(point.y), end: null });
    out.get(point).number = number;
  });
  return out;
}

function plotMark(frame, point, label) {
  const [x, y, { row }] = [frame.x(point.x), frame.y(point.y), point];
  const words = `${row.label}: forget HR@10 ${signed(row.point.gap, 4)} from retraining, retain NDCG@10 ${fixed(row.point.kept, 4)}, ${row.kind}${point.front ? ', on the front' : ''}`;
  const shape = row.kind === 'method' ? svg('circle', { class: 'mark', cx: x, cy: y, r: 4.6 }) : svg('rect', { class: `mark ${row.kind}`, x: x - 4, y: y - 4, width: 8, height: 8 });
  return svg(
    'a', { href: `#/method/${encodeURIComponent(row.method)}`, class: `point${point.front ? ' front' : ''}`, 'aria-label': words },
    svg('title', {}, words),
    label.end ? svg('line', { class: 'leader', x1: x, y1: y, x2: label.end[0], y2: label.end[1] }) : null,
    svg('circle', { class: 'halo', cx: x, cy: y, r: 12 }), shape,
    svg('text', { class: 'tag', x: label.left, y: label.y, dy: '0.34em' }, label.text),
  );
}

function drawPlot(holder, block) {
  const points = plotPoints(block);
  if (points.length < 2) return replace(holder, el('p', { class: 'quiet' }, 'No plot: it needs forget HR@10 and retain NDCG@10 of a retrained model and of another row.'));
  const frame = plotFrame(points, Math.max(280, Math.min(900, holder.clientWidth || 560)));
  const labels = plotLabels(frame, points);
  const front = points.filter((point) => point.front).sort((a, b) => a.x - b.x || a.y - b.y);
  const path = front.map((point, place) => `${place ? `H${frame.x(point.x).toFixed(1)}V` : `M${frame.x(point.x).toFixed(1)} `}${frame.y(point.y).toFixed(1)}`).join('');
  const numbered = points.filter((point) => labels.get(point).number).sort((a, b) => labels.get(a).number - labels.get(b).number);
  const sign = (...shapes) => svg('svg', { width: 14, height: 14, 'aria-hidden': 'true' }, shapes);
  return replace(
    holder,
    svg('svg', { class: 'plot', width: frame.width, height: frame.height, role: 'group', 'aria-label': 'Forgetting against what is kept' }, plotAxes(frame), svg('path', { class: 'frontier', d: path }), points.map((point) => plotMark(frame, point, labels.get(point)))),
    numbered.length ? el('p', { class: 'numbered' }, numbered.map((point) => el('span', {}, el('b', {}, labels.get(point).number), ' ', name(point.row.label), edgeText(frame, point)))) : null,
    el('figcaption', {}, el('span', {}, sign(svg('circle', { class: 'mark', cx: 7, cy: 7, r: 4.6 })), 'method'), el('span', {}, sign(svg('rect', { class: 'mark control', x: 3, y: 3, width: 8, height: 8 })), 'control'), el('span', {}, sign(svg('rect', { class: 'mark reference', x: 3, y: 3, width: 8, height: 8 })), 'reference'), el('span', {}, sign(svg('path', { class: 'frontier', d: 'M1 12V5H13' })), 'no method is better on both')),
  );
}
