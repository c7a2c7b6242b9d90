// When the machine stood still: a process that does nothing but look at the clock missed its turn by far. What failed
// meanwhile may have failed because of it.

const LOOK_MS = 250;
const LONG_MS = 1_500;
const SAID_AT_MOST = 10;

export interface Standstills {
  /** The lines to say about them. */
  end(): readonly string[];
}

export function watchStandstills(now = (): number => Date.now()): Standstills {
  const seen: { readonly from: number; readonly ms: number }[] = [];
  let last = now();
  const timer = setInterval(() => {
    const at = now();
    const late = at - last - LOOK_MS;
    if (late > LONG_MS) seen.push({ from: last, ms: late });
    last = at;
  }, LOOK_MS);
  timer.unref();
  return {
    end() {
      clearInterval(timer);
      return seen
        .toSorted((a, b) => b.ms - a.ms)
        .slice(0, SAID_AT_MOST)
        .map(
          ({ from, ms }) =>
            `the machine stood still for ${(ms / 1_000).toFixed(1)} s at ${new Date(from).toISOString()}`,
        );
    },
  };
}
