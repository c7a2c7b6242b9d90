// From which version of Kubernetes to which a cluster may go: forward, and no minor is left out. The API server reads what
// the minor before it wrote; of others nobody says so.
import { AppError } from "@gpve/contracts/errors.ts";

interface Version {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** Throws with the reason, and what to do instead. */
export function requireUpgradePath(name: string, from: string, to: string): void {
  const [now, next] = [readVersion(from), readVersion(to)];
  const refuse = (why: string): never => {
    throw new AppError(
      "request.invalid",
      `virtual cluster '${name}' runs Kubernetes ${from} and cannot be upgraded to ${to}: ${why}`,
      { errors: { version: why } },
    );
  };
  if (now === undefined || next === undefined) return refuse("versions are like 1.36.4");
  const step = next.minor - now.minor;
  if (from === to) return refuse("that is what it runs");
  if (next.major !== now.major) return refuse("another major is another cluster");
  if (step < 0 || (step === 0 && next.patch < now.patch))
    return refuse("versions do not go back; restore a backup that was made before the upgrade");
  if (step > 1)
    return refuse(
      `minors are not skipped; go to ${now.major}.${now.minor + 1} first (gpvectl vc upgrade ${name} --to ${now.major}.${now.minor + 1})`,
    );
}

function readVersion(text: string): Version | undefined {
  const match = /^(\d+)\.(\d+)\.(\d+)(?:[-+].*)?$/.exec(text);
  if (match === null) return undefined;
  const [major = 0, minor = 0, patch = 0] = match.slice(1, 4).map(Number);
  return { major, minor, patch };
}
