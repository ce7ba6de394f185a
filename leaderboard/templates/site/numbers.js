// How numbers are written, and the little arithmetic that follows from values by seed: means, intervals, paired
// differences. Quantiles come with the data. Nothing is decided here: marks, ranks, letters and p-values are stored.

function six(value) {
  if (value === null || !Number.isFinite(value)) return null;
  const rounded = Number(value.toPrecision(6));
  return rounded === 0 ? 0 : rounded;
}

function fixed(value, decimals) {
  if (value === null || value === undefined) return '–';
  const text = value.toFixed(decimals);
  const shown = Number(text) === 0 ? text.replace('-', '') : text;
  return shown.replace('-', '−');
}

function signed(value, decimals) {
  const text = fixed(value, decimals);
  return Number(value.toFixed(decimals)) > 0 ? `+${text}` : text;
}

function pText(p) {
  if (p === null || p === undefined) return '–';
  if (p < 0.001) return '< .001';
  return p < 0.9995 ? p.toFixed(3).replace(/^0/, '') : '1';
}

function percent(value) {
  return `${Number((100 * value).toPrecision(6))} %`;
}

function finite(values) {
  return values.filter((value) => value !== null);
}

function summary(values, quantiles) {
  const found = finite(values);
  const n = found.length;
  if (!n) return { mean: null, sd: null, low: null, high: null, n };
  const least = Math.min(...found);
  const most = Math.max(...found);
  const mean = least === most ? least : found.reduce((sum, value) => sum + value, 0) / n;
  if (n < 2) return { mean, sd: null, low: null, high: null, n };
  const spread = Math.sqrt(found.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1));
  const sd = least === most ? 0 : spread;
  const half = (quantiles[n] * sd) / Math.sqrt(n);
  return { mean, sd, low: mean - half, high: mean + half, n };
}

// Seed by seed; a seed that one of them lacks counts for neither.
function differences(values, others) {
  return values.map((value, seed) => (value === null || others[seed] === null ? null : value - others[seed]));
}

// Two numbers of six digits that were equal before they were rounded may differ in the last one.
function unspread(found, values) {
  const largest = Math.max(0, ...finite(values).map(Math.abs));
  return found.sd !== null && found.sd <= 2e-6 * largest ? { ...found, sd: 0, low: found.mean, high: found.mean } : found;
}

function day(seconds) {
  return seconds > 0 ? new Date(seconds * 1000).toISOString().replace('T', ' ').slice(0, 16) + ' UTC' : 'unknown';
}
