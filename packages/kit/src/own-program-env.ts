// The environment of programs of ours that something else than the launcher starts.
import { MINIMAL_ENV } from "./exec.ts";

/** glibc keeps freed memory for later, more of it the larger the blocks were that a process ever freed: what a busy moment needed stays
 * its own for good. With a bound that is said it gives all back that is more. The launcher, `gpve`, says the same one. */
const FREED_MEMORY = { MALLOC_TRIM_THRESHOLD_: "131072" };

export const OWN_PROGRAM_ENV: Readonly<Record<string, string>> = {
  ...MINIMAL_ENV,
  HOME: "/",
  TMPDIR: "/tmp",
  ...FREED_MEMORY,
};

/** For one that goes on where we are: what we were given ourselves, of these names or of all. A bound that we were given counts. */
export function inheritedEnv(
  own: Readonly<Record<string, string | undefined>>,
  isPassed: (name: string) => boolean = () => true,
): Record<string, string> {
  const env: Record<string, string> = { ...FREED_MEMORY };
  for (const [name, value] of Object.entries(own))
    if (value !== undefined && (isPassed(name) || Object.hasOwn(FREED_MEMORY, name))) env[name] = value;
  return env;
}
