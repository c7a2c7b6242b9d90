// The environment of programs of ours that something else than the launcher starts.
import { MINIMAL_ENV } from "./exec.ts";

/** glibc keeps freed memory for later, more of it the larger the blocks were that a process ever freed: what a busy moment needed stays
 * its own for good. With a bound that is said it gives all back that is more. The launcher, `gpve`, says the same one. */
export const OWN_PROGRAM_ENV: Readonly<Record<string, string>> = {
  ...MINIMAL_ENV,
  HOME: "/",
  TMPDIR: "/tmp",
  MALLOC_TRIM_THRESHOLD_: "131072",
};
