import type { CrashInjector, CrashPoint } from "../operation/ports.ts";

export type PointOfInterest = Pick<CrashPoint, "phase" | "step"> & { readonly type?: string };

/**
 * For a test composition of a real process: kill -9 of this very process the first time an operation comes to
 * this point (the `nth` time, when given).
 */
export function killAt(
  at: PointOfInterest,
  options: { readonly nth?: number; readonly kill?: () => void } = {},
): CrashInjector {
  const kill = options.kill ?? (() => process.kill(process.pid, "SIGKILL"));
  let left = options.nth ?? 1;
  return {
    hit: (point) => {
      if (!isAt(point, at)) return;
      left -= 1;
      if (left === 0) kill();
    },
  };
}

export function isAt(point: CrashPoint, at: PointOfInterest): boolean {
  return (
    point.phase === at.phase && point.step === at.step && (at.type === undefined || at.type === point.type)
  );
}
