// Times as cluster.yaml writes them: "30s", "10m", "1h30m".
const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+)([smh])/g)];
  return parts.reduce((sum, [, amount = "0", unit = "s"]) => sum + Number(amount) * (units[unit] ?? 0), 0);
}
