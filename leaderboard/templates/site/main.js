// Starts the page, draws what the address asks for, and keeps the choice of light or dark.

const PAGES = [
  ['board', '', 'Results'],
  ['overview', '', 'All tasks'],
  ['methods', '', 'Methods'],
  ['tasks', '', 'Tasks'],
  ['about', '', 'Guide'],
];

function drawNav(page) {
  const parent = own({ method: 'methods', task: 'tasks' }, page) || page;
  replace(byId('nav'), PAGES.filter(([key]) => key !== 'overview' || data.blocks.length > 1).map(([key, subject, label]) => el('a', { href: address(key, subject), 'aria-current': key === parent ? 'page' : null }, label)), themeButton());
}

function themeButton() {
  const dark = isDark();
  return el('button', { type: 'button', id: 'theme', class: 'plain-button', 'aria-label': dark ? 'Light colours' : 'Dark colours', onclick: () => setTheme(dark ? 'light' : 'dark') }, dark ? '☀' : '☾');
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('genrec-theme', theme);
  } catch {
    // Pages opened from a disk may have no storage.
  }
  drawNav(readAddress().page);
  byId('theme').focus();
}

function restoreTheme() {
  try {
    const theme = localStorage.getItem('genrec-theme');
    if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
  } catch {
    // As above.
  }
}

function drawBoard(options) {
  const block = chosenBlock(options);
  const view = chosenView(block, options);
  if (view < 0) return replace(byId('main'), el('h1', {}, data.title), el('p', {}, 'There are no results to show.'));
  const model = tableModel(block, view, options);
  const table = drawTable(model, options);
  wireCells(table);
  const plot = flag(options, 'plot', true) ? el('figure', { class: 'figure' }) : null;
  const shown = model.references.length + model.methods.length + model.diverged.length;
  const region = byId('region');
  const scrolled = region ? region.scrollLeft : 0;
  replace(
    byId('main'),
    el('div', { class: 'intro' }, boardIntro(model, options), plot ? el('section', { class: 'panel', 'aria-label': 'Plot' }, plotHead(options), plot) : null),
    drawControls(model, options),
    el('h2', { class: 'table-title' }, model.spec.title, el('span', { class: 'quiet' }, ` ${model.spec.beam === null ? '' : `beam ${model.spec.beam} · `}${plural(shown, 'row')}${model.hidden ? `, ${model.hidden} filtered out` : ''}`)),
    el('p', { class: 'quiet caption' }, model.spec.caption, ' ', orderWords(model)),
    shown ? legendOf(model) : null,
    shown ? el('div', { class: 'region board-region', id: 'region', tabindex: '0', role: 'region', 'aria-label': `${model.spec.title}, scrolls sideways` }, table) : el('p', { class: 'notice' }, 'No row is called so.'),
    tableNotes(model),
  );
  if (byId('region')) byId('region').scrollLeft = scrolled;
  if (plot) drawPareto(plot, block, options);
}

function orderWords(model) {
  const { order } = model;
  if (order.measure !== undefined) return `In the order of ${data.measures[order.measure].title}.`;
  if (order.key === 'name') return 'In the order of names.';
  return 'Order: Pareto front first, from the nearest to retrain; then by what is retained.';
}

function boardIntro(model, options) {
  const { here } = model;
  const methods = [...here.kind].filter((kind) => kind === 'm').length;
  const runs = [...here.runs.have].filter((one) => one === '1').length;
  const task = own(data.tasks, here.task) || {};
  return el(
    'section',
    { class: 'panel words' },
    el('p', { class: 'kicker' }, [task.kind && `forget ${task.kind}`, here.backbone, here.scale, here.ruleset, here.variant].filter(Boolean).join(' · ')),
    el('h1', {}, el('a', { href: address('task', here.task) }, name(here.task))),
    task.title ? el('p', {}, task.title) : null,
    pairs([
      ['Methods', String(methods)],
      ['Reference rows', String(here.label.length - methods)],
      ['Runs', String(runs)],
      ['Seeds', `${here.seeds.length} (${here.seeds.join(', ')})`],
      ['Checked', badgeCounts(here)],
      ['Diverged', Object.keys(here.diverged).length ? plural(Object.keys(here.diverged).length, 'row') : null],
    ]),
    here.seeds.length < data.protocol.seeds ? el('p', { class: 'warning' }, `${plural(here.seeds.length, 'seed')} of the ${data.protocol.seeds} that the protocol asks for: intervals are wide and few differences can be shown.`) : null,
    el('p', { class: 'quiet' }, 'Every number opens what is behind it. ', el('a', { href: address('about', '') }, 'How to read this')),
  );
}

// How far the methods' rows have been checked, in words.
function badgeCounts(here) {
  const counts = new Map();
  here.label.forEach((_, row) => {
    if (here.kind[row] === 'r') return;
    const key = data.sources[each(here.source, row)].badge;
    counts.set(key, (counts.get(key) || 0) + 1);
  });
  return [...counts].map(([key, count], at) => el('span', { title: BADGES[key].text }, at ? ', ' : '', `${count} ${BADGES[key].sign} ${BADGES[key].name}`));
}

function plotHead(options) {
  const one = (value, label) => el('label', { class: 'chip-toggle' }, el('input', { type: 'radio', name: 'y', id: `y-${value}`, value, checked: (options.get('y') || 'ndcg') === value, onchange: () => again(`y-${value}`, { y: value === 'ndcg' ? null : value }) }), el('span', {}, label));
  return el('div', { class: 'panel-head' }, el('h2', {}, 'Forgetting against what is kept'), el('div', { class: 'chips' }, one('ndcg', 'NDCG@10'), one('hr', 'HR@10'), toggle('dots', 'seeds', flag(options, 'dots', false), (on) => again('dots', { dots: on ? '1' : null }))));
}

function tableNotes(model) {
  const tests = model.here.views[model.view];
  const notes = tests ? tests.notes.map((number) => data.strings[number]) : ['These columns belong to no family: nothing is tested or ranked here.'];
  return el('section', { class: 'notes', 'aria-label': 'Notes' }, el('ul', {}, notes.map((note) => el('li', {}, note)), model.reported ? data.reported_notes.map((note) => el('li', {}, note)) : null));
}

function drawFoot() {
  const versions = [...new Set(data.blocks.flatMap((here) => (Array.isArray(here.runs.version) ? here.runs.version : [here.runs.version])).map((number) => data.strings[number]))];
  replace(
    byId('foot'),
    el('p', {}, `${data.protocol.name[0].toUpperCase()}${data.protocol.name.slice(1)} · ${plural(data.results, 'result')} · made with genrec-unlearn-bench ${versions.join(', ')}`),
    data.left_out.length ? el('p', {}, `Left out: ${data.left_out.join('; ')}.`) : null,
    data.dropped.length ? el('p', {}, `No room on this page: ${data.dropped.join('; ')}.`) : null,
  );
}

function draw() {
  const { page, subject, options } = readAddress();
  drawNav(page);
  const pages = { method: () => methodPage(subject), task: () => taskPage(subject), overview: () => overviewPage(options), methods: methodsPage, tasks: tasksPage, about: aboutPage };
  if (page === 'board') drawBoard(options);
  else replace(byId('main'), Object.hasOwn(pages, page) ? pages[page]() : missing('page', page));
  document.title = page === 'board' ? data.title : `${subject || (PAGES.find(([key]) => key === page) || [])[2] || page} · ${data.title}`;
}

function travel() {
  if (byId('dialog').open) byId('dialog').close();
  draw();
  window.scrollTo(0, 0);
  byId('main').focus({ preventScroll: true });
}

restoreTheme();
wireDialog();
byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('main').focus();
});
window.addEventListener('hashchange', travel);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawNav(readAddress().page));
let drawnAt = window.innerWidth;
window.addEventListener('resize', () => {
  const figure = document.querySelector('.figure');
  if (!figure || Math.abs(window.innerWidth - drawnAt) < 8) return;
  drawnAt = window.innerWidth;
  const { options } = readAddress();
  drawPareto(figure, chosenBlock(options), options);
});
draw();
drawFoot();
