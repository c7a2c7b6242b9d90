// Reads that start programs on the host. Clients poll them, some of them all at once: they share one answer.

/** Who asks the same while it is being read, or within `ms` of that, gets the same answer. A failure is not kept. */
export function forAMoment<Asked, T>(
  read: (asked: Asked) => Promise<T>,
  ms: number,
  now: () => number,
): (asked: Asked) => Promise<T> {
  const kept = new Map<string, { readonly answer: Promise<T>; until: number }>();
  return (asked) => {
    const key = JSON.stringify(asked) ?? "";
    const known = kept.get(key);
    if (known !== undefined && now() < known.until) return known.answer;
    const entry = { answer: read(asked), until: Number.POSITIVE_INFINITY };
    kept.set(key, entry);
    entry.answer.then(
      () => (entry.until = now() + ms),
      () => kept.delete(key),
    );
    return entry.answer;
  };
}
