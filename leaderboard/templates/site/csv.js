// The shown table as a file. Spreadsheets compute text that begins like a formula, so such names get an apostrophe.

function csvText(value) {
  const text = String(value).replace(/[\t\r\n]+/g, ' ');
  const safe = /^[\s\u00a0]*[=+\-@＝＋－＠]/.test(text) ? `'${text}` : text;
  return /[",;\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replace(/"/g, '""')}"` : safe;
}

function csvNumber(value) {
  return value === null || value === undefined ? '' : String(six(value));
}

function csvOf(model) {
  const parts = ['mean', 'sd', 'low', 'high', 'n', 'rank_first', 'rank_last', 'letters', 'p_holm', 'verdict', 'equivalence'];
  const { here } = model;
  const lines = [['task', 'backbone', 'scale', 'ruleset', 'variant', 'row', 'method', 'kind', 'diverged_seeds', ...model.measures.flatMap((m) => parts.map((part) => `${data.measures[m].id} ${part}`))].map(csvText)];
  for (const entry of [...model.references, ...model.methods, ...model.diverged]) {
    const lost = (here.diverged[entry.row] || []).length;
    const facts = [here.task, here.backbone, here.scale, here.ruleset, here.variant, entry.label, entry.method, entry.reference ? 'reference' : 'method'];
    lines.push([...facts.map(csvText), String(lost), ...model.measures.flatMap((m) => csvCell(entry.cells.get(m)))]);
  }
  return `${lines.map((line) => line.join(',')).join('\r\n')}\r\n`;
}

function csvCell(cell) {
  const [first, last] = cell.rank || [null, null];
  const { difference: test, equivalence } = cell;
  return [...[cell.mean, cell.sd, cell.low, cell.high, cell.n, first, last].map(csvNumber), csvText(cell.letters), csvNumber(test ? test.pHolm : null), csvText(test ? test.word : ''), csvText(equivalence ? equivalence.word : '')];
}

function download(text, file) {
  const place = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  const link = el('a', { href: place, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(place), 1000);
}

function fileName(model) {
  const words = [model.here.task, model.here.backbone, model.here.scale, model.here.ruleset, model.spec.layout];
  return `${words.join('-').replace(/[^A-Za-z0-9._-]+/g, '_')}.csv`;
}
