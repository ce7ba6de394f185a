// What stands behind a row: its verdicts in sentences, every measure with its tests, settings, runs and commands.

let opener = null;

const list = (pairs) => el('dl', { class: 'facts' }, pairs.filter(([, value]) => value).map(([key, value]) => el('div', {}, el('dt', {}, key), el('dd', {}, value))));

function grid(caption, heads, rows) {
  const cell = (content, place) => (place ? el('td', {}, content) : el('th', { scope: 'row' }, content));
  return el('div', { class: 'region', tabindex: 0, role: 'region', 'aria-label': caption }, el('table', { class: 'plain' }, el('caption', {}, caption), el('thead', {}, el('tr', {}, heads.map((head) => el('th', { scope: 'col' }, head)))), el('tbody', {}, rows.map((row) => el('tr', {}, row.map(cell))))));
}

const span = (low, high, decimals) => (low === null ? '' : ` [${fixed(low, decimals)}, ${fixed(high, decimals)}]`);
const measureTitle = (measure) => fullTitle(`${data.measures[measure].side} ${data.measures[measure].title}`.trim(), measure);

// A difference from the layout's baseline, as the document has it.
function differenceText(cell, measure) {
  const found = cell.difference;
  if (!found) return '–';
  const { decimals } = data.measures[measure];
  return `${signed(found.estimate, decimals)}${span(found.low, found.high, decimals)}${found.p_holm === null ? '' : `, p ${pText(found.p_holm)}`}${found.verdict ? `: ${found.verdict}` : ''}`;
}

function equivalenceText(cell, measure) {
  const found = cell.equivalence;
  if (!found) return '–';
  const { decimals } = data.measures[measure];
  return `${signed(found.estimate, decimals)}, margin ${found.margin === null ? '–' : fixed(found.margin, decimals)}${found.verdict ? `: ${found.verdict}` : ''}`;
}

function measuresTable(block, layout, row) {
  const table = tableOf(block, layout);
  const place = block.rows.indexOf(row);
  const { baseline } = block.layouts[layout];
  const rows = table.columns.map(({ measure }) => {
    const cell = cellOf(block, layout, measure, place);
    const { decimals } = data.measures[measure];
    return [measureTitle(measure), cell.mean === null ? 'n/a' : numberOf(cell, measure), span(cell.low, cell.high, decimals) || '–', differenceText(cell, measure), equivalenceText(cell, measure)];
  });
  return grid(`${table.title}: [interval], p after Holm`, ['Measure', 'Mean ± sd', 'Interval', `Minus ${baseline || 'baseline'}`, `Minus ${block.oracle || 'oracle'}`], rows);
}

const setting = (value) => (Array.isArray(value) ? value.map(setting).join(', ') : value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value));
const settings = (title, config) => el('details', {}, el('summary', {}, title), list(Object.entries(config).map(([key, value]) => [name(key), name(setting(value))])));

function copyButton(text) {
  const button = el('button', { type: 'button', class: 'plain-button' }, 'Copy');
  button.addEventListener('click', () => navigator.clipboard.writeText(text).then(() => { button.textContent = 'Copied'; }, () => { button.textContent = 'Select and copy'; }));
  return button;
}

function openRow(block, label) {
  const row = block.rows.find((one) => one.label === label);
  const layout = chosenLayout(block);
  const shown = tableOf(block, layout).rows.includes(row) ? layout : Object.keys(block.layouts)[0];
  const judged = row.verdicts ? ['forgets', 'keeps', 'costs'].map((key) => [key[0].toUpperCase() + key.slice(1), [pill(row.verdicts[key]), ` ${row.verdicts[key].detail || ''} `, el('span', { class: 'quiet' }, row.verdicts[key].sentence)]]) : [];
  // Published configurations lie in the clone's leaderboard/tuned.
  const command = data.published && !row.source ? row.command.replace('--tuned-dir tuned', '--tuned-dir leaderboard/tuned') : row.command;
  openDialog(name(label), [
    el('p', { class: 'quiet' }, `${row.kind} · ${block.title}`, row.source ? [' · from ', name(row.source)] : null, ` · ${row.badge}`),
    list(judged),
    measuresTable(block, shown, row),
    el('h3', {}, 'Run it again ', copyButton(command)),
    el('pre', { tabindex: 0, 'aria-label': 'Command' }, command),
    row.runs.length > 1 ? el('p', { class: 'quiet' }, `and the same with --seed ${row.runs.slice(1).map((run) => run.seed).join(', ')}`) : null,
    list([['Runs', row.runs.map((run, place) => [place ? ', ' : '', `seed ${run.seed} `, el('code', {}, run.key), (row.diverged || []).includes(run.seed) ? ' (diverged)' : ''])], ['Created', block.created.map((time) => time.slice(0, 10)).join(' to ')], ['Commit', block.commits.join(', ') || 'unknown'], ['Machine', block.environments.join('; ')], ['Text encoder', block.encoder]]),
    Object.keys(row.config).length ? settings('Configuration of the method', row.config) : null,
    el('p', { class: 'links' }, el('a', { href: `#/method/${encodeURIComponent(row.method)}` }, 'About ', name(row.method)), el('a', { href: `#/task/${encodeURIComponent(block.task)}` }, 'About ', name(block.task))),
  ]);
}

function openDialog(title, content) {
  const dialog = byId('dialog');
  opener = document.activeElement;
  const close = el('button', { type: 'button', class: 'close', 'aria-label': 'Close', onclick: () => dialog.close() }, '×');
  replace(dialog, el('div', { class: 'sheet' }, el('header', {}, el('h2', { id: 'dialog-title' }, title), close), content));
  for (const link of dialog.querySelectorAll('a[href^="#"]')) link.addEventListener('click', () => dialog.close());
  dialog.showModal();
  dialog.scrollTop = 0;
  close.focus();
}

function wireDialog() {
  const dialog = byId('dialog');
  dialog.addEventListener('close', () => {
    if (opener && opener.isConnected) opener.focus();
  });
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
}
