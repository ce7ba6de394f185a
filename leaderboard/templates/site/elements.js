// Elements without markup: names from other people's records only ever arrive as text.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child);
  }
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A name of unknown direction and length.
function name(text) {
  return el('bdi', { class: 'name' }, String(text));
}

function unseen(text) {
  return el('span', { class: 'unseen' }, text);
}

// What an object holds itself, for keys from outside: constructor is no method of ours.
function own(object, key) {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function byId(id) {
  return document.getElementById(id);
}

function replace(node, ...children) {
  node.replaceChildren(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function say(text) {
  byId('status').textContent = text;
}

// Only what a browser opens as a page; anything else stays text.
function outward(address, text) {
  if (!/^https?:\/\//i.test(address)) return name(text || address);
  return el('a', { href: address, rel: 'noopener noreferrer nofollow', target: '_blank' }, name(text || address));
}

function list(words, last = 'and') {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} ${last} ${words[words.length - 1]}`;
}

function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}
