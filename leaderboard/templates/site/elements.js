// The document, the address, and elements without markup: names from other people's records only ever arrive as text.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const name = (text) => el('bdi', {}, String(text));
const unseen = (text) => el('span', { class: 'unseen' }, text);
const methodLink = (row) => el('a', { href: `#/method/${encodeURIComponent(row.method)}` }, name(row.label));
const pill = (verdict) => el('span', { class: `v ${verdict.tone}` }, verdict.verdict);

function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, null, children);
}

// Numbers as they are written everywhere: a column's decimals, a real minus sign.
function fixed(value, decimals) {
  if (value === null || value === undefined) return '–';
  const text = value.toFixed(decimals);
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '−');
}

function signed(value, decimals) {
  return value !== null && Number(value.toFixed(decimals)) > 0 ? `+${fixed(value, decimals)}` : fixed(value, decimals);
}

function pText(p) {
  if (p === null || p === undefined) return '–';
  if (p < 0.001) return '< .001';
  return p < 0.9995 ? p.toFixed(3).replace(/^0/, '') : '1';
}

const plural = (count, one) => `${count} ${one}${count === 1 ? '' : 's'}`;

// What the reader has chosen lives in the address, behind the #, so that a view can be sent to someone.
const options = () => new URLSearchParams(location.hash.split('?')[1] || '');

function chosenBlock() {
  const wanted = options().get('block');
  const found = data.blocks.findIndex((block, place) => block.title === wanted || String(place) === wanted);
  return found < 0 ? data.start : found;
}

function chosenLayout(block) {
  const wanted = options().get('layout');
  return Object.hasOwn(block.layouts, wanted) ? wanted : Object.keys(block.layouts)[0];
}

// Writes a choice into the address and draws again; the control that was used keeps the focus.
function choose(changes) {
  const found = options();
  for (const [key, value] of Object.entries(changes)) {
    found.delete(key);
    for (const one of [value].flat()) if (one) found.append(key, one);
  }
  const used = document.activeElement && document.activeElement.id;
  history.replaceState(null, '', `#/${found.size ? `?${found}` : ''}`);
  draw();
  if (used && byId(used)) byId(used).focus();
}

const say = (text) => { byId('status').textContent = text; };
