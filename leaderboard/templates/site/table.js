// The table of one view in one block.

// Which rows and columns are shown, in which order.
function tableModel(block, view, options) {
  const here = data.blocks[block];
  const spec = data.views[view];
  const shut = marked(options, 'hide');
  const gone = marked(options, 'without');
  const groups = spec.groups
    .filter(([head]) => !shut.has(head))
    .map(([head, members]) => [head, members.filter((m) => m in here.values && !gone.has(data.measures[m].id))])
    .filter(([, members]) => members.length);
  const measures = groups.flatMap(([, members]) => members);
  const wanted = (options.get('q') || '').toLowerCase();
  const rows = here.label
    .map((label, row) => ({ label, row, method: here.method[row], reference: here.kind[row] === 'r', diverged: row in here.diverged }))
    .filter((entry) => entry.label.toLowerCase().includes(wanted))
    .map((entry) => ({ ...entry, cells: new Map(measures.map((m) => [m, cellOf(block, view, entry.row, m)])) }));
  const front = new Set(paretoFront(paretoPoints(block, paretoMeasures(options))).map((point) => point.row));
  for (const entry of rows) entry.front = front.has(entry.row);
  const methods = familiesOf(rows.filter((entry) => !entry.reference), spec);
  const order = chosenOrder(options, measures);
  return {
    block, view, here, spec, groups, measures, order, hidden: here.label.length - rows.length,
    references: flag(options, 'refs', true) ? rows.filter((entry) => entry.reference) : [],
    methods: sorted(methods.filter((entry) => !entry.diverged), order, block, options),
    diverged: sorted(methods.filter((entry) => entry.diverged), order, block, options),
    reported: flag(options, 'reported', false) ? reportedOf(block, measures) : null,
  };
}

// Of a layout of variants: methods that have some, each above its own.
function familiesOf(methods, spec) {
  if (!spec.variants) return methods;
  const families = new Set(methods.map((entry) => variantOf(entry.method)).filter(Boolean));
  const family = (entry) => variantOf(entry.method) || entry.method;
  return methods
    .filter((entry) => families.has(family(entry)))
    .map((entry) => ({ ...entry, variant: Boolean(variantOf(entry.method)) }))
    .sort((a, b) => family(a).localeCompare(family(b)) || a.variant - b.variant || (a.label < b.label ? -1 : 1));
}

function chosenOrder(options, measures) {
  const key = options.get('sort') || 'front';
  const measure = measures.find((m) => data.measures[m].id === key);
  const usual = measure === undefined ? 'up' : data.measures[measure].better === 'higher' || data.measures[measure].better === 'none' ? 'down' : 'up';
  return { key: measure === undefined && key !== 'name' ? 'front' : key, measure, direction: options.get('dir') || usual };
}

function sorted(rows, order, block, options) {
  const turn = order.direction === 'down' ? -1 : 1;
  if (order.key === 'name') return [...rows].sort((a, b) => turn * (a.label < b.label ? -1 : a.label > b.label ? 1 : 0));
  if (order.measure === undefined) return rows.some((entry) => entry.variant) ? rows : byFront(rows, block, options);
  const nearer = data.measures[order.measure].better === 'oracle';
  const value = (entry) => {
    const { mean } = entry.cells.get(order.measure);
    return mean !== null && nearer ? Math.abs(mean) : mean;
  };
  return [...rows].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    return turn * (one - other) || (a.label < b.label ? -1 : 1);
  });
}

// Without a chosen column: the Pareto front first, then by what is retained; without a plot, by name.
function byFront(rows, block, options) {
  const points = paretoPoints(block, paretoMeasures(options));
  const kept = new Map(points.map((point) => [point.row, point]));
  return [...rows].sort((a, b) => {
    if (a.front !== b.front) return a.front ? -1 : 1;
    const [one, other] = [kept.get(a.row), kept.get(b.row)];
    if (!one || !other) return (one ? 0 : 1) - (other ? 0 : 1) || (a.label < b.label ? -1 : 1);
    return (a.front ? one.x - other.x : other.y - one.y) || (a.label < b.label ? -1 : 1);
  });
}

// What the marks in this table mean, of those that stand in it.
function legendOf(model) {
  const cells = [...model.references, ...model.methods, ...model.diverged].flatMap((entry) => [...entry.cells.values()]);
  const has = (test) => cells.some(test);
  const { baseline, oracle } = data.protocol;
  const item = (sign, text, css) => el('li', {}, el('span', { class: css }, sign), text);
  return el(
    'ul',
    { class: 'legend', 'aria-label': 'Marks' },
    has((cell) => cell.mark === 'b') ? el('li', {}, el('b', {}, 'bold'), 'best set') : null,
    has((cell) => cell.mark === 's') ? el('li', {}, el('u', {}, 'underlined'), 'second set') : null,
    has((cell) => cell.difference && cell.difference.word === 'better') ? item('▲', `significantly better than ${baseline}`, 'sign-better') : null,
    has((cell) => cell.difference && cell.difference.word === 'worse') ? item('▼', `significantly worse than ${baseline}`, 'sign-worse') : null,
    has((cell) => cell.difference && cell.difference.word === 'underpowered') ? item('?', `underpowered against ${baseline}`, 'sign-underpowered') : null,
    has((cell) => cell.equivalence && cell.equivalence.sign === '≈') ? item('≈', `equivalent to ${oracle}`, 'sign-equivalent') : null,
    has((cell) => cell.equivalence && cell.equivalence.sign === '=') ? item('=', `as ${oracle} in every seed`, 'sign-identical') : null,
    has((cell) => cell.equivalence && cell.equivalence.sign === '≠') ? item('≠', `beyond the margin around ${oracle}`, 'sign-different') : null,
    has((cell) => cell.rank) ? item('1–3 a', 'interval of ranks, letters of ties', 'ranks') : null,
    item(svg('svg', { width: 10, height: 12, 'aria-hidden': 'true' }, svg('line', { class: 'oracle', x1: 5, x2: 5, y1: 0, y2: 12 })), `${oracle}’s value`, ''),
  );
}

function reportedOf(block, measures) {
  const found = data.reported.filter((entry) => entry.block === block && measures.includes(entry.measure));
  return { measures: measures.filter((m) => found.some((entry) => entry.measure === m)), at: new Map(found.map((entry) => [`${entry.method}/${entry.measure}`, entry])), methods: [...new Set(found.map((entry) => entry.method))] };
}

function drawTable(model, options) {
  const shows = { whiskers: flag(options, 'ci', true), spread: flag(options, 'sd', true), ranks: flag(options, 'ranks', true) };
  const axes = new Map(model.measures.map((m) => [m, columnAxis(model, m)]));
  const width = 1 + model.measures.length + (model.reported ? model.reported.measures.length : 0);
  const body = (title, rows, kind) => (rows.length ? el('tbody', { class: kind }, el('tr', { class: 'part' }, el('th', { colspan: width, scope: 'rowgroup' }, el('span', {}, title))), rows.map((entry) => drawRow(model, entry, axes, shows))) : null);
  return el(
    'table',
    { class: 'board', id: 'board' },
    el('caption', { class: 'unseen' }, `${model.spec.title}: ${blockTitle(model.here)}`),
    drawHead(model, axes, shows),
    body('Reference rows: not ranked', model.references, 'references'),
    body('Methods', model.methods, 'methods'),
    body('Diverged: not ranked', model.diverged, 'diverged'),
    reportedOnly(model, width),
  );
}

function columnAxis(model, measure) {
  const cells = [...model.references, ...model.methods, ...model.diverged].map((entry) => entry.cells.get(measure));
  const { oracle } = model.here;
  const line = oracle === null ? null : summary(valuesOf(model.block, measure, oracle), data.protocol.t).mean;
  return axisOf(cells, data.measures[measure], line);
}

function drawHead(model, axes, shows) {
  const { order, reported } = model;
  const top = el('tr', {}, sortHead('Method', 'name', order, { rowspan: 2, class: 'who' }), model.groups.map(([head, members]) => el('th', { scope: 'colgroup', colspan: members.length, class: 'group' }, el('span', {}, head))), reported && reported.measures.length ? el('th', { scope: 'colgroup', colspan: reported.measures.length, class: 'group foreign' }, el('span', {}, '⚠ Reported by the paper')) : null);
  const under = el('tr', {}, model.groups.flatMap(([, members]) => members.map((m, at) => measureHead(m, order, axes.get(m), shows, at === 0))), reported ? reported.measures.map((m, at) => el('th', { scope: 'col', class: `number foreign${at ? '' : ' first'}` }, `${sideOf(m)}${data.measures[m].title}\u00a0${data.measures[m].arrow}`)) : null);
  return el('thead', {}, top, under);
}

function sideOf(measure) {
  const { side } = data.measures[measure];
  return side ? `${side} ` : '';
}

function measureHead(measure, order, axis, shows, first) {
  const spec = data.measures[measure];
  const words = `${spec.title} ${spec.arrow}`;
  const extra = { class: `number${first ? ' first' : ''}${spec.primary ? ' primary' : ''}`, title: spec.about };
  return sortHead(words, spec.id, order, extra, spec.beam !== null && spec.beam !== data.protocol.beam ? el('small', {}, `beam ${spec.beam}`) : null, shows.whiskers && axis ? axisHead(axis, spec) : null);
}

function sortHead(words, key, order, extra, ...more) {
  const here = order.key === key;
  const rising = order.direction === 'up';
  const press = () => {
    choose({ sort: key, dir: here ? (rising ? 'down' : 'up') : null });
    say(`Sorted by ${words}`);
    const again = document.querySelector(`button[data-sort="${CSS.escape(key)}"]`);
    if (again) again.focus();
  };
  return el('th', { scope: 'col', 'aria-sort': here ? (rising ? 'ascending' : 'descending') : 'none', ...extra }, el('button', { type: 'button', class: 'sort', 'data-sort': key, onclick: press }, words, el('span', { class: 'turn', 'aria-hidden': 'true' }, here ? (rising ? ' ⇣' : ' ⇡') : '')), ...more);
}

function drawRow(model, entry, axes, shows) {
  const { here, reported } = model;
  const lost = (here.diverged[entry.row] || []).length;
  const source = data.sources[each(here.source, entry.row)];
  const head = el(
    'th',
    { scope: 'row', class: entry.variant ? 'variant' : null },
    el('a', { href: address('method', entry.method) }, name(entry.label)),
    entry.front ? el('span', { class: 'chip', title: 'On the Pareto front of forget gap and retained quality' }, 'front') : null,
    lost ? el('span', { class: 'chip bad' }, `‡ diverged ${lost} of ${runsOf(model.block, entry.row).length}`) : null,
    entry.reference ? null : badge(source),
  );
  return el('tr', {}, head, model.groups.flatMap(([, members]) => members.map((m, at) => drawCell(model, entry, m, axes.get(m), shows, at === 0))), reported ? reported.measures.map((m, at) => reportedCell(reported, entry.method, m, at === 0)) : null);
}

function badge(source) {
  const found = BADGES[source.badge];
  if (data.sources.length < 2 && source.badge === 'self-reported') return null;
  return el('span', { class: 'badge', title: `${found.name}: ${found.text}` }, `${found.sign} ${found.name}`);
}

function drawCell(model, entry, measure, axis, shows, first) {
  const cell = entry.cells.get(measure);
  const spec = data.measures[measure];
  const edge = first ? 'first' : null;
  if (cell.mean === null) return el('td', { class: edge }, el('span', { class: 'none' }, entry.diverged ? 'diverged' : 'n/a'));
  const number = fixed(cell.mean, spec.decimals);
  const strong = cell.mark === 'b' ? el('strong', {}, number, unseen(' best set')) : cell.mark === 's' ? el('u', {}, number, unseen(' second set')) : number;
  const signs = [cell.difference, cell.equivalence].filter((one) => one && one.sign);
  const against = (one) => (one === cell.difference ? `${one.word}${one.word === 'underpowered' ? ' against' : ' than'} ${data.protocol.baseline}` : `${one.word}, against ${data.protocol.oracle}`);
  const primary = model.spec.primary.includes(measure);
  const ranks = shows.ranks && primary && cell.rank ? el('span', { class: 'ranks' }, unseen(' rank '), cell.rank[0] === cell.rank[1] ? `${cell.rank[0]}` : `${cell.rank[0]}–${cell.rank[1]}`, cell.letters ? el('span', { class: 'letters' }, ` ${cell.letters}`) : null) : null;
  return el(
    'td',
    { class: edge },
    el(
      'button',
      { type: 'button', class: 'cell', 'data-cell': `${entry.row}/${spec.id}`, 'aria-haspopup': 'dialog', onclick: () => openCell(model.block, model.view, entry.row, measure) },
      el('span', { class: 'line' }, el('span', { class: 'mean' }, strong), shows.spread ? el('span', { class: 'sd' }, cell.sd === null ? ` n=${cell.n}` : ` ± ${fixed(cell.sd, spec.decimals)}`) : null, el('span', { class: 'signs' }, signs.map((one) => el('span', { class: `sign-${one.word.split(' ')[0].replace(':', '')}`, title: against(one) }, el('span', { 'aria-hidden': 'true' }, one.sign), unseen(` ${against(one)}`))))),
      shows.whiskers || ranks ? el('span', { class: 'line under' }, shows.whiskers && axis ? whisker(cell, axis, spec) : null, ranks) : null,
    ),
  );
}

function reportedCell(reported, method, measure, first) {
  const entry = reported.at.get(`${method}/${measure}`);
  const edge = `foreign${first ? ' first' : ''}`;
  if (!entry) return el('td', { class: edge }, el('span', { class: 'none' }, '–'));
  const broken = entry.broken.length > 0;
  return el('td', { class: edge }, el('button', { type: 'button', class: 'cell', 'aria-haspopup': 'dialog', onclick: () => openReported(entry) }, el('span', { class: 'line' }, el('span', { class: 'mean' }, fixed(entry.value, 3)), broken ? el('span', { class: 'broken', title: 'breaks an invariant' }, el('strong', { 'aria-hidden': 'true' }, ' !'), unseen(' breaks an invariant')) : null)));
}

function reportedOnly(model, width) {
  const { reported, here } = model;
  const missing = reported ? reported.methods.filter((method) => !here.method.includes(method)) : [];
  if (!missing.length) return null;
  return el('tbody', { class: 'foreign' }, el('tr', { class: 'part' }, el('th', { colspan: width, scope: 'rowgroup' }, el('span', {}, 'Reported, not run here'))), missing.map((method) => el('tr', {}, el('th', { scope: 'row' }, name(method)), model.measures.map(() => el('td', {}, el('span', { class: 'none' }, '–'))), reported.measures.map((m, at) => reportedCell(reported, method, m, at === 0)))));
}

// Arrow keys step from cell to cell.
function wireCells(table) {
  table.addEventListener('keydown', (event) => {
    const step = own({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }, event.key);
    const cell = event.target.closest('td');
    if (!step || !cell) return;
    const rows = [...table.querySelectorAll('tbody tr:not(.part)')];
    const row = rows.indexOf(cell.parentElement);
    const next = rows[row + step[0]];
    const found = next && next.children[cell.cellIndex + step[1]];
    const button = found && found.querySelector('button, a');
    if (!button) return;
    event.preventDefault();
    button.focus();
  });
}
