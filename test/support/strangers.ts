// Another account of the host: it is in no group and owns nothing of ours.
import { expect } from "vitest";
import { exec } from "@gpve/kit/exec.ts";

const asStranger = (program: string, path: string) =>
  exec("setpriv", ["--reuid", "65534", "--regid", "65534", "--clear-groups", program, path]);

/** It gets as far as the file, and no further. Needs root. */
export async function expectClosedToStrangers(path: string): Promise<void> {
  await asStranger("stat", path);
  await expect(asStranger("cat", path)).rejects.toThrow("Permission denied");
}
