/**
 * Ranks alternatives by how near each is to the best and how far from the worst value of every criterion (TOPSIS).
 * A weight below zero marks a criterion of which less is better. Answers a closeness of 0 to 1 for each alternative.
 */
export function closenessToIdeal(
  rows: readonly (readonly number[])[],
  weights: readonly number[],
): readonly number[] {
  const weightSum = weights.reduce((sum, weight) => sum + Math.abs(weight), 0);
  const weighted = rows.map((row) => [...row]);
  const best: number[] = [];
  const worst: number[] = [];
  for (const [column, weight] of weights.entries()) {
    const norm = Math.sqrt(rows.reduce((sum, row) => sum + (row[column] ?? 0) ** 2, 0));
    for (const row of weighted) {
      row[column] = norm === 0 ? 0 : (((row[column] ?? 0) / norm) * Math.abs(weight)) / weightSum;
    }
    const values = weighted.map((row) => row[column] ?? 0);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    best.push(weight < 0 ? low : high);
    worst.push(weight < 0 ? high : low);
  }
  return weighted.map((row) => {
    const toBest = distance(row, best);
    const toWorst = distance(row, worst);
    return toBest + toWorst === 0 ? 1 : toWorst / (toBest + toWorst);
  });
}

function distance(a: readonly number[], b: readonly number[]): number {
  return Math.sqrt(a.reduce((sum, value, index) => sum + (value - (b[index] ?? 0)) ** 2, 0));
}
