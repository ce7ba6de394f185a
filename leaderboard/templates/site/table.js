// The table of numbers of one layout in one block, and sorting and filtering of any table.

const SIGNS = {
  better: ['▲', 'good'], worse: ['▼', 'bad'], underpowered: ['?', 'fair'],
  equivalent: ['≈', 'same'], identical: ['=', 'same'], different: ['≠', 'same'],
};
const ARROWS = { higher: '↑', lower: '↓', oracle: '→0', none: '' };
const at = (column, place) => (column ? column[place] : null) ?? null;

// Everything that the document says about one row's measure.
function cellOf(block, layout, measure, place) {
  const values = block.cells[measure] || {};
  const { columns, rows } = block.layouts[layout];
  const family = columns[measure] || {};
  const pick = (found, keys, number) => Object.fromEntries(keys.map((key) => [key, at(found && found[key], number)]));
  const ranked = rows.indexOf(block.rows[place].label);
  const difference = pick(family.difference, ['estimate', 'low', 'high', 'p_holm', 'verdict'], ranked);
  const equivalence = pick(values.equivalence, ['estimate', 'verdict'], place);
  return {
    ...pick(values, ['mean', 'sd', 'low', 'high'], place),
    n: at(values.n, place) ?? block.seeds.length,
    ...pick(family, ['mark', 'rank', 'letters'], ranked),
    difference: difference.estimate === null ? null : difference,
    equivalence: equivalence.estimate === null ? null : { ...equivalence, margin: values.equivalence.margin },
  };
}

// The table of the document that shows a block in a layout, and its columns of this block's task.
function tableOf(block, layout) {
  const task = block.setup ? `${block.task} (${block.setup})` : block.task;
  const same = (table) => table.layout === layout && ['scale', 'ruleset', 'regime'].every((key) => table[key] === block[key]);
  const table = data.tables.find((one) => same(one) && one.columns.some((column) => column.task === task));
  if (!table) return null;
  const section = table.sections.find((one) => one.backbone === block.backbone);
  const columns = table.columns.filter((column) => column.task === task && column.measure in block.cells);
  return { ...table, columns, rows: block.rows.filter((row) => section && section.rows.includes(row.label)) };
}

// A title with the measure's unit and direction.
function fullTitle(title, measure) {
  const { better, unit } = data.measures[measure];
  const units = { seconds: ' (s)', MiB: ' (MiB)' };
  return `${title}${units[unit] || ''} ${ARROWS[better]}`.trim();
}

function numbersTable(block, layout) {
  const table = tableOf(block, layout);
  if (!table) return el('p', { class: 'quiet' }, 'Nothing of this was measured here.');
  const heads = [];
  for (const { head } of table.columns) {
    if (heads.length && heads[heads.length - 1].head === head) heads[heads.length - 1].wide += 1;
    else heads.push({ head, wide: 1 });
  }
  const axes = new Map(table.columns.map(({ measure }) => [measure, axisOf(block, measure)]));
  const parts = [['method', 'Methods'], ['control', 'Controls'], ['reference', 'References']];
  const body = ([kind, title]) => {
    const rows = table.rows.filter((row) => row.kind === kind);
    return rows.length ? el('tbody', { class: kind }, kind === 'method' ? null : el('tr', { class: 'part' }, el('th', { scope: 'rowgroup', colspan: table.columns.length + 1 }, el('span', {}, title))), rows.map((row) => numbersRow(block, layout, table, row, axes))) : null;
  };
  return el(
    'table', { class: 'numbers', id: 'numbers' },
    el('caption', { class: 'unseen' }, `${table.title}: ${block.title}`),
    el('thead', {}, el('tr', {}, el('th', { rowspan: 2, scope: 'col' }, 'Method'), heads.map(({ head, wide }) => el('th', { colspan: wide, scope: 'colgroup', class: 'group' }, head))), el('tr', {}, table.columns.map((column) => el('th', { scope: 'col', title: data.measures[column.measure].about }, fullTitle(column.title, column.measure))))),
    parts.map(body),
  );
}

function numbersRow(block, layout, table, row, axes) {
  const place = block.rows.indexOf(row);
  const lost = (row.diverged || []).length;
  return el(
    'tr', { 'data-row': row.label },
    el('th', { scope: 'row' }, methodLink(row), lost ? el('span', { class: 'badge' }, `diverged ${lost} of ${row.runs.length}`) : null),
    table.columns.map(({ measure }) => {
      const cell = cellOf(block, layout, measure, place);
      if (cell.mean === null) return el('td', { class: 'quiet' }, lost ? 'diverged' : 'n/a');
      return el('td', { 'data-sort': cell.mean }, numberOf(cell, measure), block.layouts[layout].primary.includes(measure) && cell.rank ? el('small', { class: 'ranks' }, ` ${cell.rank.join('–')} ${cell.letters || ''}`) : null, data.measures[measure].unit === 'fraction' ? whisker(cell, axes.get(measure)) : null);
    }),
  );
}

// A mean with its spread and signs, which say in words what they mean to whoever hears them.
function numberOf(cell, measure) {
  const { decimals } = data.measures[measure];
  const tag = { best: 'strong', second: 'u' }[cell.mark] || 'span';
  const signs = [[cell.difference, 'than the baseline'], [cell.equivalence, 'to the oracle']];
  return [
    el(tag, { class: 'mean' }, fixed(cell.mean, decimals), tag === 'span' ? null : unseen(` (${cell.mark} set)`)),
    el('small', {}, cell.sd === null ? ` n=${cell.n}` : ` ± ${fixed(cell.sd, decimals)}`),
    signs.map(([found, words]) => found && SIGNS[found.verdict] && el('span', { class: `sign ${SIGNS[found.verdict][1]}` }, el('span', { 'aria-hidden': 'true' }, SIGNS[found.verdict][0]), unseen(` ${found.verdict} ${words}`))),
  ];
}

// The span of a column's intervals, within the measure's own range.
function axisOf(block, measure) {
  const { low, high, mean } = block.cells[measure];
  const [least, most] = data.measures[measure].range;
  const values = [mean, low, high].flatMap((column) => column || []).filter((value) => value !== null);
  const [from, to] = [Math.max(Math.min(...values), least ?? -Infinity), Math.min(Math.max(...values), most ?? Infinity)];
  const oracle = at(mean, block.rows.findIndex((row) => row.label === block.oracle));
  return low && to > from ? { x: (value) => 3 + 74 * Math.max(0, Math.min(1, (value - from) / (to - from))), oracle } : null;
}

function whisker(cell, axis) {
  if (!axis) return null;
  const line = (kind, from, to, top, bottom) => svg('line', { class: kind, x1: axis.x(from).toFixed(1), x2: axis.x(to).toFixed(1), y1: top, y2: bottom });
  return svg('svg', { class: 'whisker', width: 80, height: 10, 'aria-hidden': 'true' }, axis.oracle === null ? null : line('oracle', axis.oracle, axis.oracle, 0, 10), cell.low === null ? null : line('bar', cell.low, cell.high, 5, 5), svg('circle', { class: 'dot', cx: axis.x(cell.mean).toFixed(1), cy: 5, r: 2.6 }));
}

// Buttons in the heads of a table, which sort the rows of each of its parts but the references.
function sortable(table) {
  const heads = [...table.querySelectorAll('thead th:not(.group)')];
  heads.forEach((head, place) => {
    const words = head.firstChild.textContent.trim();
    const press = () => {
      const rising = head.getAttribute('aria-sort') !== 'ascending';
      for (const other of heads) other.setAttribute('aria-sort', other === head ? (rising ? 'ascending' : 'descending') : 'none');
      for (const part of table.querySelectorAll('tbody:not(.reference)')) sortRows(part, place, rising ? 1 : -1);
      say(`Sorted by ${words}`);
    };
    head.setAttribute('aria-sort', 'none');
    replace(head, el('button', { type: 'button', class: 'sort', onclick: press }, [...head.childNodes]));
  });
}

function sortRows(part, place, turn) {
  const value = (row) => row.children[place].dataset.sort ?? null;
  const text = (row) => row.dataset.row;
  const rows = [...part.querySelectorAll('tr:not(.part)')].sort((a, b) => {
    if (place === 0) return turn * (text(a) < text(b) ? -1 : 1);
    if (value(a) === null || value(b) === null) return (value(a) === null) - (value(b) === null);
    return turn * (value(a) - value(b)) || (text(a) < text(b) ? -1 : 1);
  });
  part.append(...rows);
}

function filterRows(wanted) {
  for (const row of byId('board').querySelectorAll('tr[data-row]')) row.hidden = !row.dataset.row.toLowerCase().includes(wanted.toLowerCase());
  const found = byId('board').querySelectorAll('.block:not([hidden]) tr[data-row]:not([hidden])').length;
  byId('unmatched').hidden = found > 0;
  return found;
}
