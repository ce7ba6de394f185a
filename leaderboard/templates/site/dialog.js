// What stands behind a number: values by seed, interval, test, equivalence, and the runs it came from.

let opener = null;

function pairs(facts) {
  return el('dl', { class: 'facts' }, facts.filter(([, value]) => value !== null && value !== undefined && value !== '').map(([key, value]) => el('div', {}, el('dt', {}, key), el('dd', {}, value))));
}

// A setting as it is read: small numbers with an exponent, text without quotes.
function setting(value) {
  if (typeof value === 'number') return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential().replace('e-', 'e−') : String(value);
  if (typeof value === 'string') return value || '(empty)';
  if (Array.isArray(value)) return value.map(setting).join(', ') || '(none)';
  return value === null ? 'none' : JSON.stringify(value);
}

function settings(config) {
  const lines = [];
  const walk = (value, path) => {
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
      for (const [key, inner] of Object.entries(value)) walk(inner, path ? `${path}.${key}` : key);
    } else lines.push([path, setting(value)]);
  };
  walk(config, '');
  if (!lines.length) return el('p', { class: 'quiet' }, 'Nothing to set.');
  return el('table', { class: 'plain' }, el('tbody', {}, lines.map(([key, value]) => el('tr', {}, el('th', { scope: 'row' }, name(key)), el('td', {}, name(value))))));
}

function copyButton(text, what) {
  const button = el('button', { type: 'button', class: 'copy' }, 'Copy');
  button.addEventListener('click', async () => {
    button.textContent = (await copied(text)) ? 'Copied' : 'Select and copy';
    say(button.textContent === 'Copied' ? `${what} copied` : 'Copying is not allowed here');
    setTimeout(() => { button.textContent = 'Copy'; }, 1600);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el('textarea', { class: 'unseen', 'aria-hidden': 'true' });
    field.value = text;
    (byId('dialog').open ? byId('dialog') : document.body).append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    return done;
  }
}

function seedTable(block, row, measure, cell, runs) {
  const here = data.blocks[block];
  const spec = data.measures[measure];
  const beside = (other) => (other === null || other === row ? null : valuesOf(block, measure, other));
  const [base, oracle] = [beside(here.baseline), beside(here.oracle)];
  const number = (value, diverged) => el('td', { class: 'right' }, diverged ? 'diverged' : fixed(value, Math.max(spec.decimals, 2)));
  return el(
    'div',
    { class: 'region', tabindex: '0', role: 'region', 'aria-label': 'Values by seed' },
    el(
      'table',
      { class: 'plain' },
      el('caption', {}, 'By seed'),
      el('thead', {}, el('tr', {}, ['Seed', 'Value', base && here.label[here.baseline], oracle && here.label[here.oracle], 'Key', 'Commit', 'Created', 'Suite'].map((head, at) => head && el('th', { scope: 'col', class: at > 0 && at < 4 ? 'right' : null }, name(head))))),
      el('tbody', {}, runs.map((run) => el('tr', {}, el('th', { scope: 'row' }, String(run.seed)), number(cell.values[run.place], run.diverged), base && number(base[run.place]), oracle && number(oracle[run.place]), el('td', {}, el('code', {}, `${run.key}…`)), el('td', {}, el('code', { title: run.commit }, run.commit ? run.commit.slice(0, 10) : 'unknown'), run.commit.endsWith('+') ? ' (changed files)' : ''), el('td', {}, run.created), el('td', {}, `${run.suite} ${run.version}`)))),
    ),
  );
}

function verdictText(cell, spec) {
  const found = cell.difference;
  if (!found) return null;
  const head = found.word === 'better' || found.word === 'worse' ? `significantly ${found.word}` : found.word;
  const interval = found.low === null ? 'no interval' : `${percent(data.protocol.confidence)} interval ${signed(found.low, spec.decimals)} to ${signed(found.high, spec.decimals)}`;
  const parts = [`${signed(found.mean, spec.decimals)} (${interval}) over ${plural(found.n, 'shared seed')}`];
  parts.push(`Holm-corrected p = ${pText(found.pHolm)}`.replace('= <', '<'));
  if (found.p !== null) parts.push(`before correction ${pText(found.p)}`);
  if (found.pFlip !== null) parts.push(`exact sign flip ${pText(found.pFlip)}`);
  if (found.effect !== null) parts.push(`Hedges' g ${fixed(found.effect, 2)}`);
  if (found.exact) parts.push('every seed differs by the same number');
  return [el('strong', {}, head), `: ${parts.join('; ')}.`, underpoweredText(found)];
}

// Too few seeds: said in words, with the smallest p that they could have given.
function underpoweredText(found) {
  if (found.word !== 'underpowered') return null;
  const least = found.n < 2 ? '1 (one seed allows no test)' : pText(2 ** (1 - found.n));
  return ` Underpowered: no result with ${plural(found.n, 'seed')} could have reached ${data.protocol.alpha}; the smallest p there is, before correction, is ${least}.`;
}

function equivalenceText(cell, spec) {
  const found = cell.equivalence;
  if (!found) return null;
  const interval = found.low === null ? 'no interval' : `90 % interval ${signed(found.low, spec.decimals)} to ${signed(found.high, spec.decimals)}`;
  const margin = found.margin === null ? 'no margin: too few retrained seeds' : `margin ±${fixed(found.margin, spec.decimals)}`;
  return [el('strong', {}, found.word), `: ${signed(found.mean, spec.decimals)} (${interval}), ${margin}, ${plural(found.n, 'shared seed')}.`];
}

function rankText(cell) {
  if (!cell.rank) return null;
  const [first, last] = cell.rank;
  return `${first === last ? first : `${first} to ${last}`}${cell.letters ? `; letters ${cell.letters} (rows that share one are not separable)` : ''}`;
}

function provenance(block, row, runs) {
  const here = data.blocks[block];
  const first = runs[0];
  const machine = first ? first.environment : {};
  const commands = [...new Set(runs.map((run) => run.command))].join('\n');
  const notes = [...new Set(runs.flatMap((run) => run.notes))];
  const source = data.sources[each(here.source, row)];
  return [
    el('h3', {}, 'Run it again', copyButton(commands, 'Commands')),
    el('pre', { tabindex: '0', 'aria-label': 'Commands' }, el('code', {}, commands)),
    pairs([
      ['Device', [...new Set(runs.map((run) => `${run.environment.device} (${run.environment.device_name})`))].join(', ')],
      ['Precision', [...new Set(runs.map((run) => run.environment.precision))].join(', ')],
      ['Threads', [...new Set(runs.map((run) => run.environment.threads))].join(', ')],
      ['Python', machine.python],
      ['Text encoder', name(here.encoder)],
      ['Method source', el('code', {}, `${here.digest[row]}…`)],
      ['Per-user table', runs.every((run) => run.perUser) ? 'with every run' : 'missing for some runs'],
      ['Checked', el('span', {}, BADGES[source.badge].name, ': ', BADGES[source.badge].text)],
    ]),
    el('details', {}, el('summary', {}, 'Configuration of the method'), settings(data.configs[each(here.config, row)])),
    el('details', {}, el('summary', {}, 'Backbone and semantic IDs'), settings({ backbone: data.configs[here.backbone_config], sids: data.configs[here.sid_config] })),
    el('details', {}, el('summary', {}, 'Packages'), settings(machine.packages || {})),
    notes.length ? el('details', {}, el('summary', {}, 'Notes of the runs'), el('ul', {}, notes.map((note) => el('li', {}, name(note))))) : null,
  ];
}

function openCell(block, view, row, measure) {
  const here = data.blocks[block];
  const spec = data.measures[measure];
  const cell = cellOf(block, view, row, measure);
  const runs = runsOf(block, row);
  const method = here.method[row];
  const lost = (here.diverged[row] || []).length;
  openDialog(
    [name(here.label[row]), ` · ${spec.side} ${spec.title}`.replace('·  ', '· ')],
    [
      el('p', { class: 'lead' }, cell.mean === null ? (lost ? 'diverged' : 'not measured') : `${fixed(cell.mean, spec.decimals)}${cell.sd === null ? '' : ` ± ${fixed(cell.sd, spec.decimals)}`}`, el('span', { class: 'quiet' }, ` ${spec.arrow} ${spec.unit}`)),
      el('p', { class: 'quiet' }, `${blockTitle(here)}${spec.beam === null ? '' : ` · beam ${spec.beam}`}. ${spec.about}`),
      lost ? el('p', { class: 'warning' }, `‡ ${lost} of ${runs.length} runs diverged; the row is not ranked.`) : null,
      pairs([
        ['Mean', cell.mean === null ? 'not measured' : String(six(cell.mean))],
        ['Standard deviation', cell.sd === null ? 'none: it takes two seeds' : String(six(cell.sd))],
        [`${percent(data.protocol.confidence)} interval`, cell.low === null ? 'none' : `${six(cell.low)} to ${six(cell.high)}`],
        ['Seeds', `${cell.n} of ${here.seeds.length}`],
        ['Ranks', rankText(cell)],
        [`Against ${data.protocol.baseline}`, verdictText(cell, spec)],
        [`Against ${data.protocol.oracle}`, equivalenceText(cell, spec)],
      ]),
      seedTable(block, row, measure, cell, runs),
      provenance(block, row, runs),
      el('p', { class: 'links' }, el('a', { href: address('method', method) }, 'About ', name(method)), el('a', { href: address('task', here.task) }, 'About ', name(here.task)), el('a', { href: boardAddress(here, { layout: data.views[view].layout }) }, 'Its table')),
    ],
  );
}

function openReported(entry) {
  const spec = data.measures[entry.measure];
  openDialog(
    [name(entry.method), ` · ${spec.side} ${spec.title}, as reported`],
    [
      el('p', { class: 'lead' }, fixed(entry.value, spec.decimals), entry.sd === null ? '' : ` ± ${fixed(entry.sd, spec.decimals)}`),
      entry.broken.length ? el('p', { class: 'warning' }, '⚠ The reported row breaks bounds that every correct evaluation keeps:') : null,
      entry.broken.length ? el('ul', {}, entry.broken.map((sentence) => el('li', {}, sentence))) : null,
      data.reported_notes.map((note) => el('p', { class: 'quiet' }, note)),
    ],
  );
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
    opener = null;
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  // Tab stays inside, even where a browser would leave for its own controls.
  dialog.addEventListener('keydown', (event) => {
    if (event.key !== 'Tab') return;
    const stops = [...dialog.querySelectorAll('a[href], button, summary, [tabindex="0"]')].filter((node) => node.offsetParent !== null);
    const edge = event.shiftKey ? stops[0] : stops[stops.length - 1];
    if (document.activeElement !== edge) return;
    event.preventDefault();
    (event.shiftKey ? stops[stops.length - 1] : stops[0]).focus();
  });
}

const BADGES = {
  'self-reported': { name: 'self-reported', sign: '○', text: 'the numbers are as their author sent them.' },
  're-scored': { name: 're-scored', sign: '◐', text: 'every aggregate was derived again from the per-user tables.' },
  reproduced: { name: 'reproduced', sign: '●', text: 'a maintainer ran it again and got the same numbers within the stated tolerance.' },
};
