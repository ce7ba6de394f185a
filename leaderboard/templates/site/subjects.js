// Pages of one method and one task, their lists, and how to read all of it.

function paragraphs(text) {
  return text.split(/\n\s*\n/).map((part) => part.trim()).filter(Boolean).map((part) => el('p', {}, linked(part.replace(/\s*\n\s*/g, ' '))));
}

// arXiv numbers become links; nothing else in a text does.
function linked(text) {
  const parts = text.split(/(arXiv[: ]\d{4}\.\d{4,5})/i);
  return parts.map((part) => {
    const found = /^arXiv[: ](\d{4}\.\d{4,5})$/i.exec(part);
    return found ? outward(`https://arxiv.org/abs/${found[1]}`, part) : part;
  });
}

function grid(caption, heads, rows, right = [], silent = false) {
  const cell = (content, at) => (at ? el('td', { class: right.includes(at) ? 'right' : null }, content) : el('th', { scope: 'row' }, content));
  return el('div', { class: 'region', tabindex: '0', role: 'region', 'aria-label': caption }, el('table', { class: 'plain' }, el('caption', { class: silent ? 'unseen' : null }, caption), el('thead', {}, el('tr', {}, heads.map((head, at) => el('th', { scope: 'col', class: right.includes(at) ? 'right' : null }, head)))), el('tbody', {}, rows.map((row) => el('tr', {}, row.map(cell))))));
}

function factList(facts) {
  return facts.length ? pairs(facts.map((fact) => [fact.name, name(fact.text)])) : null;
}

function mainView(block) {
  return chosenView(block, new URLSearchParams());
}

// Every place where a method was run, with the columns of the main table.
function methodResults(method) {
  return data.blocks.flatMap((here, block) => here.label.map((label, row) => ({ here, block, label, row })).filter(({ row }) => here.method[row] === method));
}

function resultsTable(method) {
  const places = methodResults(method);
  if (!places.length) return el('p', { class: 'quiet' }, 'No results of its own here.');
  const measures = [...new Set(places.flatMap(({ block }) => { const view = mainView(block); return view < 0 ? [] : measuresOf(data.views[view]); }))];
  const heads = ['Where', ...measures.map((m) => `${sideOf(m)}${data.measures[m].title} ${data.measures[m].arrow}`)];
  const rows = places.map(({ here, block, label, row }) => [
    [el('a', { href: boardAddress(here) }, name(blockTitle(here))), label === method ? null : [' ', name(label)], row in here.diverged ? el('span', { class: 'chip bad' }, '‡ diverged') : null],
    ...measures.map((m) => resultCell(block, row, m)),
  ]);
  return grid('All its results', heads, rows, measures.map((_, at) => at + 1), true);
}

function resultCell(block, row, measure) {
  const view = mainView(block);
  const spec = data.measures[measure];
  const cell = cellOf(block, view, row, measure);
  if (cell.mean === null) return el('span', { class: 'none' }, row in data.blocks[block].diverged ? 'diverged' : 'n/a');
  return el('button', { type: 'button', class: 'cell inline', 'aria-haspopup': 'dialog', onclick: () => openCell(block, view, row, measure) }, fixed(cell.mean, spec.decimals), el('span', { class: 'sd' }, cell.sd === null ? ` n=${cell.n}` : ` ± ${fixed(cell.sd, spec.decimals)}`));
}

function recorded(method, field) {
  const found = new Set();
  for (const { here, row } of methodResults(method)) {
    const config = data.configs[each(here.config, row)];
    if (field in config) found.add(setting(config[field]));
  }
  return [...found].join(', ') || '–';
}

// Defaults and search spaces are JSON where their source is a plain literal.
function written(text) {
  if (!text) return '–';
  try {
    return setting(JSON.parse(text));
  } catch {
    return text;
  }
}

function configTable(method, page) {
  const parent = page.variant_of ? own(data.methods, page.variant_of) : page;
  const fields = parent ? parent.fields : [];
  const known = new Set(fields.map((field) => field.name));
  const others = new Set(methodResults(method).flatMap(({ here, row }) => Object.keys(data.configs[each(here.config, row)])).filter((field) => !known.has(field)));
  const rows = [...fields.map((field) => [[el('code', {}, field.name), field.about ? el('small', {}, linked(field.about)) : null], recorded(method, field.name), written(field.default), written(field.search)]), ...[...others].map((field) => [name(field), recorded(method, field), '–', '–'])];
  if (!rows.length) return el('p', { class: 'quiet' }, 'It has nothing to set.');
  return grid('Configuration', ['Setting', 'In these results', 'Default', 'Tuned over'], rows, [], true);
}

function sourcesOf(method) {
  const numbers = new Set(methodResults(method).map(({ here, row }) => each(here.source, row)));
  return [...numbers].map((number) => data.sources[number]).filter((source) => source.name).map((source) => el('section', { class: 'card' }, el('h3', {}, name(source.title || source.name)), el('p', {}, badge(source) || source.badge, ' ', source.authors.map((author, at) => [at ? ', ' : '', name(author)])), source.link ? el('p', {}, outward(source.link)) : null, source.bibtex ? el('pre', { tabindex: '0' }, source.bibtex) : null));
}

function methodPage(method) {
  const page = own(data.methods, method);
  if (!page) return missing('method', method);
  const parent = page.variant_of && own(data.methods, page.variant_of);
  return el(
    'article',
    { class: 'subject' },
    el('p', { class: 'kicker' }, page.reference ? 'Reference row' : page.variant_of ? 'Variant' : 'Method'),
    el('h1', {}, name(method)),
    page.summary ? el('p', { class: 'lead' }, linked(page.summary)) : el('p', { class: 'quiet' }, 'Its source is not installed where this page was made.'),
    parent ? el('p', {}, 'A variant of ', el('a', { href: address('method', page.variant_of) }, name(page.variant_of)), page.changes.length ? `, with ${list(page.changes.map((fact) => `${fact.name} = ${fact.text}`))}.` : '.') : null,
    page.text ? el('section', { class: 'prose' }, el('h2', {}, 'Account'), paragraphs(page.text)) : null,
    page.file || page.requires.length ? pairs([['Source', page.file ? el('code', {}, page.file) : null], ['Needs of a backbone', page.requires.join(', ')]]) : null,
    sourcesOf(method),
    el('section', {}, el('h2', {}, 'Results'), resultsTable(method)),
    page.reference ? null : el('section', {}, el('h2', {}, 'Configuration'), configTable(method, page)),
    page.variants.length ? el('section', {}, el('h2', {}, 'Variants'), el('ul', {}, page.variants.map((fact) => el('li', {}, own(data.methods, fact.name) ? el('a', { href: address('method', fact.name) }, name(fact.name)) : name(fact.name), ': ', fact.text)))) : null,
  );
}

function overlapTable(task) {
  const wanted = ['overlap.mean', 'overlap.lift', 'overlap.shared-prefix'].map(measureAt).filter((m) => m >= 0);
  const places = data.blocks.map((here, block) => ({ here, block, row: here.label.indexOf('original') })).filter(({ here, row }) => here.task === task && row >= 0);
  const rows = places.map(({ here, block, row }) => [name(blockTitle(here)), ...wanted.map((m) => fixed(summary(valuesOf(block, m, row), data.protocol.t).mean, 4))]).filter((row) => row.slice(1).some((text) => text !== '–'));
  if (!rows.length) return null;
  return grid('Overlap of concept and retain items before unlearning', ['Where', ...wanted.map((m) => data.measures[m].title)], rows, [1, 2, 3]);
}

function healthSection(report) {
  return el('section', {}, el('h3', {}, `Semantic IDs on ${report.backbone}, ${report.scale}: ${report.items} items`), grid('Levels', ['Level', 'Codes used', 'Perplexity', 'Largest code', 'Prefixes', 'Error', 'Nearest code'], report.levels, [1, 2, 3, 4, 5, 6]), factList(report.facts), report.prefixes.length ? grid('Prefixes with two or more items', ['Length', 'Prefixes', 'One brand', 'One category', 'Concept items that share it with a retain item'], report.prefixes, [1, 2, 3, 4]) : null);
}

function taskPage(task) {
  const page = own(data.tasks, task);
  if (!page) return missing('task', task);
  const boards = data.blocks.filter((here) => here.task === task);
  return el(
    'article',
    { class: 'subject' },
    el('p', { class: 'kicker' }, `Task${page.kind ? ` · forget ${page.kind === 'item' || page.kind === 'interaction' || page.kind === 'brand' ? `${page.kind}s` : `a ${page.kind} band`}` : ''}`),
    el('h1', {}, name(task)),
    page.title ? el('p', { class: 'lead' }, page.title) : null,
    page.text ? paragraphs(page.text) : null,
    el('section', {}, el('h2', {}, 'Tables'), el('ul', { class: 'links' }, boards.map((here) => el('li', {}, el('a', { href: boardAddress(here) }, name(blockTitle(here))))))),
    el('div', { class: 'halves' }, page.facts.length ? el('section', {}, el('h2', {}, 'What it fixes'), factList(page.facts)) : null, page.resolved.length ? el('section', {}, el('h2', {}, 'What it came to'), factList(page.resolved)) : null),
    page.counts.length ? grid('Examples', ['Part', 'Forget', 'Retain', 'Forget share'], page.counts.map(([part, forget, retain]) => [part, forget.toLocaleString('en'), retain.toLocaleString('en'), `${((100 * forget) / (forget + retain || 1)).toFixed(1)} %`]), [1, 2, 3]) : null,
    page.concepts.length ? el('details', { class: 'concepts' }, el('summary', {}, `What is forgotten: ${plural(page.concepts.length + page.more_concepts, 'concept')}`), el('ul', { class: 'columns' }, page.concepts.map((concept) => el('li', {}, name(concept)))), page.more_concepts ? el('p', {}, `… and ${page.more_concepts} more.`) : null) : null,
    overlapTable(task),
    page.health.map(healthSection),
    page.dataset ? el('section', {}, el('h2', {}, 'Data: ', name(page.dataset)), el('p', {}, page.dataset_title), factList(page.dataset_facts), page.citations.length ? el('details', {}, el('summary', {}, `Cite: ${list(page.citations.map((one) => one.key))}`), page.citations.map((one) => el('div', {}, copyButton(one.bibtex, 'BibTeX'), el('pre', { tabindex: '0' }, one.bibtex)))) : null) : null,
  );
}

function missing(kind, subject) {
  return el('article', { class: 'subject' }, el('h1', {}, 'Not here'), el('p', {}, `There is no ${kind} called `, name(subject), ' in these results.'), el('p', {}, el('a', { href: '#/' }, 'To the results')));
}

function methodsPage() {
  const rows = Object.entries(data.methods).map(([method, page]) => [el('a', { href: address('method', method) }, name(method)), page.reference ? 'reference' : page.variant_of ? 'variant' : 'method', String(methodResults(method).length), linked(page.summary)]);
  return el('article', { class: 'subject' }, el('h1', {}, 'Methods'), grid('Everything that was run', ['Name', 'Kind', 'Tables', 'What it does'], rows, [2]));
}

function tasksPage() {
  const rows = Object.entries(data.tasks).map(([task, page]) => [el('a', { href: address('task', task) }, name(task)), page.kind || '–', page.dataset || '–', String(data.blocks.filter((here) => here.task === task).length), page.title]);
  return el('article', { class: 'subject' }, el('h1', {}, 'Tasks'), grid('What was asked to be forgotten', ['Name', 'Kind', 'Data', 'Tables', 'What it is'], rows, [3]));
}

function aboutPage() {
  const { alpha, confidence, baseline, oracle, equivalence_quantile: quantile } = data.protocol;
  const terms = [
    ['The target', `Forgetting aims at the row ${oracle}, a model that never saw what is to be forgotten, and not at zero.`],
    ['Interval', `${percent(confidence)} t interval over training seeds, on one axis a column. The line through all of them is ${oracle}.`],
    ['Bold, underlined', 'Bold is the best set: the best mean and all that are not separable from it. Underlined is the second set. Where no two methods are separable nothing is marked.'],
    ['Ranks and letters', 'A rank is an interval, as the data allow no more. Methods that share a letter are not separable.'],
    ['▲ ▼', `Significantly better or worse than ${baseline}: paired t over seeds, Holm within the family, α = ${alpha}.`],
    ['≈ = ≠', `Equivalent to ${oracle} by two one-sided tests (margin: the ${percent(quantile)} quantile of differences between retrained models), the same in every seed, or beyond the margin. Without a sign neither is shown; “not significant” never means “forgotten”.`],
    ['? underpowered', 'So few seeds that no result could have reached α. The cell says the smallest p there is.'],
    ['‡ diverged', 'A run that broke down. Its row is shown and never ranked.'],
    ['Reference rows', 'Models that no method competes with: before unlearning, retrained, filtered. They are neither ranked nor tested as methods.'],
    ['Plot', `Left is nearer to ${oracle}, up keeps more. The front holds the methods that no other beats on both counts; it is drawn from means and says nothing about significance.`],
  ];
  return el('article', { class: 'subject' }, el('h1', {}, 'How to read this'), pairs(terms), el('h2', {}, 'Badges'), pairs(Object.values(BADGES).map((one) => [`${one.sign} ${one.name}`, one.text])), data.left_out.length || data.dropped.length ? leftOut() : null);
}

function leftOut() {
  return el('section', {}, el('h2', {}, 'Left out'), el('ul', {}, data.left_out.map((text) => el('li', {}, text)), data.dropped.map((text) => el('li', {}, `${text}: no room on a page of this many results; bench leaderboard prints it`))));
}
