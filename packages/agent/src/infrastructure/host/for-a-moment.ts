// Reads that start programs on the host. Clients poll them, some of them all at once: they share one answer.

/** Who asks while it is being read, or within `ms` of that, gets the same answer. A failure is not kept. */
export function forAMoment<K extends string, T>(
  read: (key: K) => Promise<T>,
  ms: number,
  now: () => number,
): (key: K) => Promise<T> {
  const kept = new Map<K, { readonly answer: Promise<T>; until: number }>();
  return (key) => {
    const known = kept.get(key);
    if (known !== undefined && now() < known.until) return known.answer;
    const entry = { answer: read(key), until: Number.POSITIVE_INFINITY };
    kept.set(key, entry);
    entry.answer.then(
      () => (entry.until = now() + ms),
      () => kept.delete(key),
    );
    return entry.answer;
  };
}
