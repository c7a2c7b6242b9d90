// Prometheus text format (version 0.0.4) for figures that are read at scrape time and kept nowhere.

export type Labels = Readonly<Record<string, string | number>>;
export type Sample = readonly [labels: Labels, value: number];

/** One metric with its samples; "" when there are none, so that nothing half-described is shown. */
export function metricText(
  name: string,
  type: "gauge" | "counter",
  help: string,
  samples: Iterable<Sample>,
): string {
  let lines = "";
  for (const [labels, value] of samples) lines += `${name}${labelText(labels)} ${numberText(value)}\n`;
  return lines === "" ? "" : `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines}`;
}

export interface Distribution {
  readonly count: number;
  readonly sum: number;
  /** How many were at most so large, by the bound as text; `+Inf` is the count. */
  readonly buckets: Readonly<Record<string, number>>;
}

export function histogramText(
  name: string,
  help: string,
  samples: Iterable<readonly [labels: Labels, value: Distribution]>,
): string {
  let lines = "";
  for (const [labels, { buckets, count, sum }] of samples) {
    const bounds = Object.keys(buckets).toSorted((a, b) => Number(a) - Number(b));
    for (const le of bounds) lines += `${name}_bucket${labelText({ ...labels, le })} ${buckets[le]}\n`;
    lines += `${name}_bucket${labelText({ ...labels, le: "+Inf" })} ${count}\n`;
    lines += `${name}_sum${labelText(labels)} ${numberText(sum)}\n`;
    lines += `${name}_count${labelText(labels)} ${count}\n`;
  }
  return lines === "" ? "" : `# HELP ${name} ${help}\n# TYPE ${name} histogram\n${lines}`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}
