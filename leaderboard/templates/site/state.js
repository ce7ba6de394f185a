// What the reader has chosen lives in the address, behind the #, so that a view can be sent to someone.

const BLOCK_KEYS = ['task', 'backbone', 'scale', 'ruleset', 'variant'];

function readAddress() {
  const [path, query = ''] = location.hash.replace(/^#/, '').split('?');
  let parts = [];
  try {
    parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = [];
  }
  return { page: parts[0] || 'board', subject: parts.slice(1).join('/'), options: new URLSearchParams(query) };
}

function address(page, subject, options) {
  const path = page === 'board' ? '/' : `/${page}${subject ? `/${encodeURIComponent(subject)}` : ''}`;
  const query = options ? options.toString() : '';
  return `#${path}${query ? `?${query}` : ''}`;
}

function boardAddress(block, extra = {}) {
  const options = new URLSearchParams();
  for (const key of BLOCK_KEYS) if (block[key]) options.set(key, block[key]);
  for (const [key, value] of Object.entries(extra)) options.set(key, value);
  return address('board', '', options);
}

// The block that fits the choice best; where no block fits wholly, what was chosen last counts most.
function chosenBlock(options) {
  const last = options.get('last');
  let best = data.start;
  let most = 0;
  data.blocks.forEach((block, number) => {
    let fit = 0;
    BLOCK_KEYS.forEach((key, place) => {
      if (!options.has(key)) return;
      if (block[key] === options.get(key)) fit += key === last ? 100 : BLOCK_KEYS.length - place + 5;
    });
    if (fit > most) [best, most] = [number, fit];
  });
  return best;
}

function beams() {
  return [...new Set(data.measures.map((measure) => measure.beam).filter((beam) => beam !== null))].sort((a, b) => a - b);
}

// The views that a block has: those with statistics there, and the list of everything.
function viewsOf(block) {
  const { values, views } = data.blocks[block];
  return data.views
    .map((view, number) => ({ view, number }))
    .filter(({ view, number }) => number in views || (!view.tested && measuresOf(view).some((m) => m in values)));
}

function chosenView(block, options) {
  const offered = viewsOf(block);
  const beam = Number(options.get('beam')) || data.protocol.beam;
  const layout = options.get('layout') || 'main';
  const named = offered.filter(({ view }) => view.layout === layout);
  const fitting = named.find(({ view }) => view.beam === null || view.beam === beam) || named[0] || offered[0];
  return fitting ? fitting.number : -1;
}

function flag(options, key, usual) {
  return options.has(key) ? options.get(key) === '1' : usual;
}

function marked(options, key) {
  return new Set((options.get(key) || '').split('|').filter(Boolean));
}

// Writes a change into the address and draws again; an empty value takes the key away.
function choose(changes) {
  const { options } = readAddress();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === '') options.delete(key);
    else options.set(key, value);
  }
  const key = Object.keys(changes).find((one) => BLOCK_KEYS.includes(one));
  if (key) settle(options, key);
  history.replaceState(null, '', address('board', '', options));
  draw();
}

// After a choice of task, backbone … the other keys follow to a block that exists.
function settle(options, key) {
  options.set('last', key);
  const block = data.blocks[chosenBlock(options)];
  for (const other of BLOCK_KEYS) {
    if (block[other]) options.set(other, block[other]);
    else options.delete(other);
  }
  options.delete('last');
}
