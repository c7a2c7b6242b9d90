import { refused } from "@gpve/domain/request/failures.ts";
import { realpathSync, statSync } from "node:fs";
import { ignore } from "@gpve/kit/background.ts";

/** The block device a path leads to; refuses in PVE's words. */
export function blockDevice(path: string): string {
  const refuse = (text: string): never => {
    throw refused(text);
  };
  let real = "";
  try {
    real = realpathSync(path);
  } catch (err) {
    ignore(err, "said below");
  }
  if (real !== "" && !real.startsWith("/dev/")) return refuse(`got unusual device path '${real}'`);
  if (real === "" || !statSync(real).isBlockDevice()) return refuse("not a valid block device");
  return real;
}
