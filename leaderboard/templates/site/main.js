// Starts the page, draws what the address asks for, and keeps the choice of light or dark.

function field(id, label, entries, chosen, change) {
  const box = el('select', { id, onchange: (event) => change(event.target.value) }, entries.map(([value, text]) => el('option', { value, selected: value === chosen }, text)));
  return el('div', { class: 'field' }, el('label', { for: id }, label), box);
}

function drawBoard() {
  const place = chosenBlock();
  const block = data.blocks[place];
  const wanted = options().get('block');
  if (wanted && ![block.title, String(place)].includes(wanted)) replace(byId('missing'), el('p', { class: 'notice' }, 'There are no results called ', name(wanted), ' here; these are ', name(block.title), '.'));
  const layout = chosenLayout(block);
  const sections = [...byId('board').querySelectorAll('.block')];
  for (const section of sections) section.hidden = Number(section.dataset.block) !== place;
  const section = sections.find((one) => !one.hidden);
  replace(byId('choice'), field('pick-block', 'Task and backbone', data.blocks.map((one) => [one.title, one.title]), block.title, (value) => choose({ block: value, row: [], q: null })));
  for (const row of section.querySelectorAll('tr[data-row]')) rowTools(block, row);
  if (!section.querySelector('figure')) section.insertBefore(el('figure', { 'aria-label': 'Plot' }), section.querySelector('.region').nextSibling);
  replace(byId('below'), controls(block, layout), compareSection(block, layout), numbers(block, layout));
  drawPlot(section.querySelector('figure'), block);
  const table = byId('numbers');
  if (table) {
    sortable(table);
    for (const row of table.querySelectorAll('tr[data-row]')) rowTools(block, row, true);
  }
  filterRows(options().get('q') || '');
}

// A button for the details of a row, and a box to compare it.
function rowTools(block, line, button = false) {
  const row = block.rows.find((one) => one.label === line.dataset.row);
  if (!button) [...line.querySelectorAll('td')].forEach((cell, place) => { if (row.verdicts) cell.dataset.sort = row.order[place]; });
  const old = line.querySelector('.tools');
  if (old) old.remove();
  line.firstElementChild.append(el('span', { class: 'tools' }, el('button', { type: 'button', class: 'more', 'aria-label': `Details of ${row.label}`, 'aria-haspopup': 'dialog', onclick: () => openRow(block, row.label) }, '⋯'), button ? null : compareBox(row)));
}

function controls(block, layout) {
  const search = el('input', { type: 'search', id: 'search', value: options().get('q') || '', autocomplete: 'off', spellcheck: 'false' });
  search.addEventListener('input', () => {
    const found = options();
    found.set('q', search.value);
    history.replaceState(null, '', `#/?${found}`);
    say(`${plural(filterRows(search.value), 'row')} shown`);
  });
  const entries = Object.keys(block.layouts).map((one) => [one, (tableOf(block, one) || { title: one }).title]);
  return el('section', { class: 'controls', 'aria-label': 'Choices' }, field('pick-layout', 'Numbers', entries, layout, (value) => choose({ layout: value })), el('div', { class: 'field' }, el('label', { for: 'search' }, 'Name contains'), search), el('p', { class: 'quiet' }, 'Tick rows to compare them; ⋯ shows what is behind a row.'), el('p', { class: 'notice', id: 'unmatched', hidden: true }, 'No name contains this.'));
}

function numbers(block, layout) {
  const table = tableOf(block, layout);
  return el('section', { 'aria-label': 'Numbers' }, el('h2', {}, table ? table.title : layout), table ? el('p', { class: 'quiet' }, table.caption) : null, el('div', { class: 'region', tabindex: 0, role: 'region', 'aria-label': 'Table of numbers' }, numbersTable(block, layout)), table ? el('ul', { class: 'notes' }, block.layouts[layout].notes.map((note) => el('li', {}, note))) : null);
}

// The page of an address; as the browser finds it for :target, which is not there before all is loaded.
function pageOf(path) {
  try {
    return document.getElementById(decodeURIComponent(path));
  } catch {
    return null;
  }
}

function draw() {
  const path = location.hash.replace(/^#/, '').split('?')[0] || '/';
  for (const link of byId('nav').querySelectorAll('a')) {
    const own = link.getAttribute('href').slice(1);
    if (path === own || (own !== '/' && path.startsWith(own.replace(/s$/, '')))) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const page = pageOf(path);
  if (!page && path !== '/') replace(byId('missing'), el('p', { class: 'notice' }, 'There is no page called ', name(path), ' here.'));
  else replace(byId('missing'));
  document.title = page ? `${page.querySelector('h1').textContent} · ${data.title}` : data.title;
  if (!page && data.blocks.length) drawBoard();
}

function themeButton() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches);
  const button = el('button', { type: 'button', id: 'theme', class: 'plain-button' });
  const label = () => {
    button.setAttribute('aria-label', dark() ? 'Light colours' : 'Dark colours');
    button.textContent = dark() ? '☀' : '☾';
  };
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    try {
      localStorage.setItem('genrec-theme', root.dataset.theme);
    } catch {
      // Pages opened from a disk may have no storage.
    }
    label();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', label);
  label();
  return button;
}

try {
  const theme = localStorage.getItem('genrec-theme');
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
} catch {
  // As above.
}
document.documentElement.classList.add('scripted');
byId('nav').append(themeButton());
byId('board').prepend(el('div', { id: 'missing' }));
byId('board').append(el('div', { id: 'below' }));
for (const table of document.querySelectorAll('table.verdicts')) sortable(table);
wireDialog();
byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('main').focus();
});
window.addEventListener('hashchange', () => {
  if (byId('dialog').open) byId('dialog').close();
  draw();
  window.scrollTo(0, 0);
  byId('main').focus({ preventScroll: true });
});
let drawnAt = window.innerWidth;
window.addEventListener('resize', () => {
  if (Math.abs(window.innerWidth - drawnAt) < 8 || !data.blocks.length) return;
  drawnAt = window.innerWidth;
  // The results are not drawn before they are first shown.
  const figure = document.querySelector('.block:not([hidden]) figure');
  if (figure) drawPlot(figure, data.blocks[chosenBlock()]);
});
draw();
