// The data block, and the questions that the rest of the page asks of it. Its format: reporting/html/payload_model.py.

const data = JSON.parse(byId('data').textContent);
const columns = new Map();

// A packed column: base64 of little-endian float32, NaN for what was not measured.
function unpack(text, length) {
  if (!text) return new Array(length).fill(null);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 4 }, (_, place) => six(view.getFloat32(4 * place, true)));
}

function column(block, measure) {
  const key = `${block}/${measure}`;
  if (!columns.has(key)) {
    const { values, label, seeds } = data.blocks[block];
    columns.set(key, unpack(values[measure], label.length * seeds.length));
  }
  return columns.get(key);
}

function valuesOf(block, measure, row) {
  const seeds = data.blocks[block].seeds.length;
  return column(block, measure).slice(row * seeds, (row + 1) * seeds);
}

function each(column, place) {
  return Array.isArray(column) ? column[place] : column;
}

function measuresOf(view) {
  return [...new Set(view.groups.flatMap(([, members]) => members))];
}

const VERDICTS = {
  b: { word: 'better', sign: '▲' },
  w: { word: 'worse', sign: '▼' },
  n: { word: 'not separable', sign: '' },
  u: { word: 'underpowered', sign: '?' },
};
const EQUIVALENCE = {
  e: { word: 'equivalent', sign: '≈' },
  i: { word: 'identical in every seed', sign: '=' },
  d: { word: 'different: beyond the margin', sign: '≠' },
  n: { word: 'neither equivalence nor a difference is shown', sign: '' },
  u: { word: 'underpowered', sign: '' },
};

// Everything about one row's measure in a view.
function cellOf(block, view, row, measure) {
  const values = valuesOf(block, measure, row);
  const cell = { values, ...summary(values, data.protocol.t), mark: '', rank: null, letters: '' };
  const tests = data.blocks[block].views[view];
  const place = measuresOf(data.views[view]).indexOf(measure);
  const codes = tests && tests.codes[place];
  if (codes === undefined || (Array.isArray(codes) && !codes.length)) return cell;
  const [mark, first, last, letters, verdict, equivalence] = data.codes[each(codes, row)];
  Object.assign(cell, { mark, letters, rank: first ? [first, last] : null });
  if (verdict) cell.difference = difference(block, tests, place, row, measure, values, verdict);
  if (equivalence) cell.equivalence = equivalenceOf(block, tests.margins[place], measure, values, equivalence);
  return cell;
}

function difference(block, tests, place, row, measure, values, verdict) {
  const { baseline, label } = data.blocks[block];
  const others = valuesOf(block, measure, baseline);
  const found = unspread(summary(differences(values, others), data.protocol.t), [...values, ...others]);
  const raw = tests.raw[measure];
  return {
    ...found,
    ...VERDICTS[verdict.toLowerCase()],
    exact: verdict !== verdict.toLowerCase(),
    effect: found.sd ? (found.mean / found.sd) * data.protocol.hedges[found.n] || null : null,
    pHolm: unpack(tests.p[place], label.length)[row],
    p: raw ? unpack(raw[0], label.length)[row] : null,
    pFlip: raw ? unpack(raw[1], label.length)[row] : null,
  };
}

function equivalenceOf(block, margin, measure, values, code) {
  const others = valuesOf(block, measure, data.blocks[block].oracle);
  const found = unspread(summary(differences(values, others), data.protocol.t90), [...values, ...others]);
  return { ...found, ...EQUIVALENCE[code], margin };
}

// A measure of the same group and name at another beam.
function twin(measure, beam) {
  const { id } = data.measures[measure];
  const wanted = id.replace(/\/\d+$/, `/${beam}`);
  return data.measures.findIndex((other) => other.id === wanted);
}

function measureAt(text) {
  return data.measures.findIndex((measure) => measure.id === text);
}

// The runs of a row: what each seed's result says about itself.
function runsOf(block, row) {
  const { seeds, runs } = data.blocks[block];
  const out = [];
  let place = 0;
  for (let at = 0; at < runs.have.length; at += 1) {
    if (runs.have[at] !== '1') continue;
    if (Math.floor(at / seeds.length) === row) out.push(runAt(block, row, at % seeds.length, place));
    place += 1;
  }
  return out;
}

function runAt(block, row, seed, place) {
  const here = data.blocks[block];
  const { runs } = here;
  const facts = { task: here.task, backbone: here.backbone, method: here.method[row], scale: here.scale };
  facts.seed = String(here.seeds[seed]);
  let command = data.strings[each(runs.command, place)];
  for (const [slot, value] of Object.entries(facts)) {
    command = command.split(` --${slot} {${slot}}`).join(` --${slot} ${value}`);
  }
  return {
    seed: here.seeds[seed],
    place: seed,
    diverged: (here.diverged[row] || []).includes(here.seeds[seed]),
    key: runs.key.slice(16 * place, 16 * place + 16).trim(),
    created: day(data.since + each(runs.created, place)),
    environment: data.environments[each(runs.environment, place)],
    commit: data.strings[each(runs.commit, place)],
    notes: data.strings[each(runs.notes, place)].split('\n').filter(Boolean),
    suite: data.strings[each(runs.suite, place)],
    version: data.strings[each(runs.version, place)],
    perUser: runs.per_user[place] === '1',
    command,
  };
}

function blockTitle(block) {
  return [block.task, block.backbone, block.scale, block.ruleset, block.variant].filter(Boolean).join(' · ');
}

function variantOf(method) {
  return (own(data.methods, method) || {}).variant_of || '';
}
