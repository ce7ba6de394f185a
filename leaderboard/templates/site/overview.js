// One measure over every task and backbone of a scale, ruleset and regime: two suites train on different data.

function overviewBlocks(options) {
  const usual = data.blocks[data.start];
  const scale = options.get('scale') || usual.scale;
  const ruleset = options.get('ruleset') || usual.ruleset;
  const regime = options.has('regime') ? options.get('regime') : usual.regime;
  const found = data.blocks.map((here, block) => ({ here, block })).filter(({ here }) => here.scale === scale && here.ruleset === ruleset && here.regime === regime);
  return { scale, ruleset, regime, found };
}

// Measures of the main table and of any other tested view, in the order of the views.
function overviewMeasures(found) {
  const out = new Map();
  for (const { here, block } of found) {
    for (const { view, number } of viewsOf(block)) {
      if (!view.tested) continue;
      for (const m of measuresOf(view)) if (m in here.values && !out.has(m)) out.set(m, number);
    }
  }
  return out;
}

function overviewRows(found) {
  const kinds = new Map();
  for (const { here } of found) here.label.forEach((label, row) => kinds.has(label) || kinds.set(label, { label, method: here.method[row], reference: here.kind[row] === 'r' }));
  const rows = [...kinds.values()];
  return [...rows.filter((row) => row.reference), ...rows.filter((row) => !row.reference).sort((a, b) => (a.label < b.label ? -1 : 1))];
}

function overviewCell({ here, block }, row, measure, view) {
  const place = here.label.indexOf(row.label);
  if (place < 0 || !(measure in here.values)) return el('td', {}, el('span', { class: 'none' }, '–'));
  const cell = cellOf(block, view in here.views ? view : chosenView(block, new URLSearchParams()), place, measure);
  const spec = data.measures[measure];
  if (cell.mean === null) return el('td', {}, el('span', { class: 'none' }, place in here.diverged ? 'diverged' : 'n/a'));
  const number = fixed(cell.mean, spec.decimals);
  const shown = cell.mark === 'b' ? el('strong', {}, number, unseen(' best set')) : cell.mark === 's' ? el('u', {}, number, unseen(' second set')) : number;
  const signs = [cell.difference, cell.equivalence].filter((one) => one && one.sign);
  return el('td', {}, el('button', { type: 'button', class: 'cell', 'aria-haspopup': 'dialog', onclick: () => openCell(block, view, place, measure) }, el('span', { class: 'line' }, el('span', { class: 'mean' }, shown), el('span', { class: 'sd' }, cell.sd === null ? `n=${cell.n}` : `± ${fixed(cell.sd, spec.decimals)}`), el('span', { class: 'signs' }, signs.map((one) => el('span', { class: `sign-${one.word.split(' ')[0].replace(':', '')}`, title: one.word }, el('span', { 'aria-hidden': 'true' }, one.sign), unseen(` ${one.word}`)))))));
}

function overviewTable(found, rows, measure, view) {
  const tasks = [...new Set(found.map(({ here }) => here.task))];
  const part = (title, members, kind) => (members.length ? el('tbody', { class: kind }, el('tr', { class: 'part' }, el('th', { colspan: 1 + found.length, scope: 'rowgroup' }, el('span', {}, title))), members.map((row) => el('tr', {}, el('th', { scope: 'row' }, el('a', { href: address('method', row.method) }, name(row.label))), found.map((place) => overviewCell(place, row, measure, view))))) : null);
  const table = el(
    'table',
    { class: 'board', id: 'overview' },
    el('caption', { class: 'unseen' }, `${sideOf(measure)}${data.measures[measure].title} on every task`),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col', rowspan: 2, class: 'who' }, 'Method'), tasks.map((task) => el('th', { scope: 'colgroup', class: 'group', colspan: found.filter(({ here }) => here.task === task).length }, el('span', {}, el('a', { href: address('task', task) }, name(task)))))), el('tr', {}, found.map(({ here }) => el('th', { scope: 'col' }, el('a', { href: boardAddress(here) }, name([here.backbone, here.variant].filter(Boolean).join(' · '))))))),
    part('Reference rows: not ranked', rows.filter((row) => row.reference), 'references'),
    part('Methods', rows.filter((row) => !row.reference), 'methods'),
  );
  wireCells(table);
  return table;
}

function overviewPage(options) {
  const { scale, ruleset, regime, found } = overviewBlocks(options);
  const measures = overviewMeasures(found);
  if (!measures.size) return el('article', {}, el('h1', {}, 'All tasks'), el('p', {}, 'There are no results to show.'));
  const asked = measureAt(options.get('measure') || '');
  const measure = measures.has(asked) ? asked : [...measures.keys()][0];
  const spec = data.measures[measure];
  const change = (key) => (value) => {
    options.set(key, value);
    history.replaceState(null, '', address('overview', '', options));
    draw();
    byId(`over-${key}`).focus();
  };
  const distinct = (key) => [...new Set(data.blocks.map((here) => here[key]))].map((value) => [value, value]);
  const titles = [...measures.keys()].map((m) => [data.measures[m].id, `${sideOf(m)}${data.measures[m].title} ${data.measures[m].arrow}${data.measures[m].beam === null ? '' : ` · beam ${data.measures[m].beam}`}`]);
  return el(
    'article',
    {},
    el('h1', {}, 'All tasks'),
    el('p', { class: 'quiet' }, spec.about, ' Marks are those of each task’s own table; nothing is averaged over tasks.'),
    el('section', { class: 'controls', 'aria-label': 'Choices' }, el('div', { class: 'fields' }, pick('over-measure', 'Measure', titles, spec.id, change('measure')), pick('over-scale', 'Scale', distinct('scale'), scale, change('scale')), pick('over-ruleset', 'Ruleset', distinct('ruleset'), ruleset, change('ruleset')), distinct('regime').length > 1 ? pick('over-regime', 'Suite', distinct('regime').map(([value]) => [value, value || 'core']), regime, change('regime')) : null)),
    found.length ? el('div', { class: 'region spaced', tabindex: '0', role: 'region', 'aria-label': 'All tasks, scrolls sideways' }, overviewTable(found, overviewRows(found), measure, measures.get(measure))) : el('p', { class: 'notice' }, 'Nothing was run at this scale under this ruleset and in this suite.'),
  );
}
