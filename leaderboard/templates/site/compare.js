// Rows that the reader has chosen, side by side: each with its difference from the baseline, as the document has it.

const chosenRows = (block) => options().getAll('row').map((label) => block.rows.find((row) => row.label === label)).filter(Boolean);
const quoted = (text) => (/^[\w.+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);

function compareBox(row) {
  const chosen = options().getAll('row');
  const change = (event) => choose({ row: event.target.checked ? [...chosen, row.label] : chosen.filter((label) => label !== row.label) });
  return el('input', { type: 'checkbox', id: `compare-${row.label}`, checked: chosen.includes(row.label), 'aria-label': `Compare ${row.label}`, onchange: change });
}

function compareSection(block, layout) {
  const rows = chosenRows(block);
  if (rows.length < 2) return rows.length ? el('p', { class: 'notice' }, 'Choose a second row to compare.') : null;
  const table = tableOf(block, layout);
  const { baseline } = block.layouts[layout];
  const verdict = (key) => [key[0].toUpperCase() + key.slice(1), ...rows.map((row) => (row.verdicts ? [pill(row.verdicts[key]), ` ${row.verdicts[key].detail || ''}`] : '–'))];
  const numbers = table.columns.map(({ measure }) => [measureTitle(measure), ...rows.map((row) => {
    const cell = cellOf(block, layout, measure, block.rows.indexOf(row));
    return cell.mean === null ? '–' : [numberOf(cell, measure), cell.difference ? el('small', { class: 'block-line' }, `${differenceText(cell, measure)}`) : null];
  })]);
  const pairs = rows.flatMap((one, place) => rows.slice(place + 1).map((other) => [one, other])).filter((pair) => !pair.some((row) => row.label === baseline));
  const command = ([one, other]) => ['bench results compare', one.label, other.label, '--task', block.task, '--backbone', block.backbone, '--scale', block.scale, '--ruleset', block.ruleset, ...(data.published ? ['--published'] : [])].map((word, place) => (place ? quoted(word) : word)).join(' ');
  return el(
    'section', { class: 'card', id: 'compare', 'aria-label': 'Comparison' },
    el('h2', {}, 'Side by side ', el('button', { type: 'button', class: 'plain-button', onclick: () => choose({ row: [] }) }, 'Clear')),
    el('p', { class: 'quiet' }, `Below each number: its difference from ${baseline || 'the baseline'} [interval], p after Holm.`),
    grid(`${table.title}, ${block.title}`, ['What', ...rows.map((row) => name(row.label))], [...['forgets', 'keeps', 'costs'].map(verdict), ...numbers]),
    pairs.length ? [el('p', {}, 'Not in this document: tests of these rows against each other. To run them:'), el('pre', { tabindex: 0, 'aria-label': 'Commands' }, pairs.map(command).join('\n'))] : null,
  );
}
