// Choices: which block, which columns, what is drawn.

const DIMENSIONS = [
  ['task', 'Task'],
  ['backbone', 'Backbone'],
  ['scale', 'Scale'],
  ['ruleset', 'Ruleset'],
  ['variant', 'Setup'],
];

function pick(id, label, entries, chosen, change) {
  const box = el('select', { id, onchange: (event) => change(event.target.value) }, entries.map(([value, text]) => el('option', { value, selected: value === chosen }, text)));
  return el('div', { class: 'field' }, el('label', { for: id }, label), box);
}

function dimension(key, label, block) {
  const values = [...new Set(data.blocks.map((other) => other[key]))];
  if (key === 'variant' && values.length < 2) return null;
  return pick(`pick-${key}`, label, values.map((value) => [value, value || 'standard']), block[key], (value) => again(`pick-${key}`, { [key]: value, ...(value ? {} : { [key]: null }) }));
}

function layoutPick(blockNumber, view, options) {
  const offered = [...new Map(viewsOf(blockNumber).map(({ view: one }) => [one.layout, one.title])).entries()];
  return pick('pick-layout', 'Table', offered, data.views[view].layout, (value) => again('pick-layout', { layout: value, sort: null, dir: null, hide: null, without: null }));
}

function beamPick(view, options) {
  const entries = beams().map((beam) => [String(beam), String(beam)]);
  if (entries.length < 2) return null;
  const beam = options.get('beam') || String(data.protocol.beam);
  const field = pick('pick-beam', 'Beam', entries, beam, (value) => again('pick-beam', { beam: value === String(data.protocol.beam) ? null : value, sort: sortAtBeam(options, Number(value)) }));
  if (data.views[view].beam === null) field.title = 'The beam changes the plot; this table is the same at every beam.';
  return field;
}

// A column keeps its place in the order when the beam changes.
function sortAtBeam(options, beam) {
  const measure = measureAt(options.get('sort') || '');
  const other = measure < 0 ? -1 : twin(measure, beam);
  return other < 0 ? options.get('sort') || null : data.measures[other].id;
}

// After a redraw the control that was used has the focus again.
function again(id, changes) {
  choose(changes);
  const node = byId(id);
  if (node) node.focus();
}

function toggle(id, label, on, change) {
  return el('label', { class: 'chip-toggle' }, el('input', { type: 'checkbox', id, checked: on, onchange: (event) => change(event.target.checked) }), el('span', {}, label));
}

function search(options) {
  const field = el('input', { type: 'search', id: 'search', placeholder: 'name of a method', value: options.get('q') || '', autocomplete: 'off', spellcheck: 'false' });
  field.addEventListener('input', () => {
    const place = field.selectionStart;
    choose({ q: field.value });
    const fresh = byId('search');
    fresh.focus();
    fresh.setSelectionRange(place, place);
  });
  return el('div', { class: 'field grow' }, el('label', { for: 'search' }, 'Search'), field);
}

function setToggle(options, key, value, on) {
  const held = marked(options, key);
  if (on) held.delete(value);
  else held.add(value);
  return { [key]: [...held].join('|') };
}

function groupToggles(model, options) {
  const shut = marked(options, 'hide');
  return el('fieldset', { class: 'chips' }, el('legend', {}, 'Column groups'), model.spec.groups.map(([head], at) => toggle(`group-${at}`, head, !shut.has(head), (on) => again(`group-${at}`, setToggle(options, 'hide', head, on)))));
}

function columnToggles(model, options) {
  const gone = marked(options, 'without');
  const present = model.spec.groups.map(([head, members]) => [head, members.filter((m) => m in model.here.values)]);
  const open = Boolean(byId('columns') && byId('columns').open);
  return el('details', { id: 'columns', open }, el('summary', {}, 'Columns', gone.size ? ` (${gone.size} hidden)` : ''), present.map(([head, members]) => el('fieldset', { class: 'chips' }, el('legend', {}, head), members.map((m) => toggle(`column-${m}`, `${data.measures[m].title} ${data.measures[m].arrow}`, !gone.has(data.measures[m].id), (on) => again(`column-${m}`, setToggle(options, 'without', data.measures[m].id, on)))))));
}

function showToggles(model, options) {
  const one = (key, label, usual) => toggle(`show-${key}`, label, flag(options, key, usual), (on) => again(`show-${key}`, { [key]: on === usual ? null : on ? '1' : '0' }));
  const reported = data.reported.some((entry) => entry.block === model.block);
  return el('fieldset', { class: 'chips' }, el('legend', {}, 'Show'), one('plot', 'plot', true), one('refs', 'reference rows', true), one('ci', 'intervals', true), one('sd', '± sd', true), one('ranks', 'ranks', true), reported ? one('reported', 'the paper’s reported numbers', false) : null);
}

function drawControls(model, options) {
  const copy = el('button', { type: 'button', class: 'plain-button', onclick: async () => say((await copied(location.href)) ? 'Address copied' : 'Copy it from the address bar') }, 'Copy link to this view');
  const save = el('button', { type: 'button', class: 'plain-button', id: 'csv', onclick: () => download(csvOf(model), fileName(model)) }, 'Download CSV');
  const reset = location.hash.includes('?') ? el('a', { class: 'plain-button', href: '#/' }, 'Reset') : null;
  return el(
    'section',
    { class: 'controls', 'aria-label': 'Choices' },
    el('div', { class: 'fields' }, DIMENSIONS.map(([key, label]) => dimension(key, label, model.here)), layoutPick(model.block, model.view, options), beamPick(model.view, options), search(options)),
    el('details', { class: 'more', id: 'more', open: byId('more') ? byId('more').open : window.innerWidth > 760 }, el('summary', {}, 'Columns and display'), el('div', { class: 'fields' }, model.spec.groups.length > 1 ? groupToggles(model, options) : null, showToggles(model, options)), columnToggles(model, options), el('p', { class: 'actions' }, save, copy, reset)),
  );
}
