// A NIC's `rate`, enforced with what the kernel has. What leaves the tap towards the guest is shaped, what comes from
// the guest is policed.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Exec, exec as systemExec } from "@gpve/kit/exec.ts";

export interface RateLimit {
  readonly toGuest: "htb" | "tbf" | "none";
  readonly fromGuest: "police" | "none";
  /** Why a direction has no limit; empty when both have one. */
  readonly missing: readonly string[];
}

const BURST = "1048576b";

/** 0 = no limit. Megabytes per second, as PVE counts them. */
export async function limitRate(
  interfaceName: string,
  megabytesPerSecond: number,
  exec: Exec = systemExec,
): Promise<RateLimit> {
  const tc = async (...args: string[]): Promise<void> => {
    await exec("tc", args);
  };
  for (const old of ["root", "ingress"]) {
    try {
      await tc("qdisc", "del", "dev", interfaceName, old);
    } catch (err) {
      ignore(err, "there was none");
    }
  }
  if (megabytesPerSecond <= 0) return { toGuest: "none", fromGuest: "none", missing: [] };
  const rate = `${Math.round(megabytesPerSecond * 1024 * 1024)}bps`;
  let missing: string[] = [];
  const attempt = async (what: string, steps: readonly string[][]): Promise<boolean> => {
    try {
      for (const step of steps) await tc(...step);
      return true;
    } catch (err) {
      missing.push(`${what}: ${messageOf(err)}`);
      return false;
    }
  };
  const dev = ["dev", interfaceName];
  let toGuest: RateLimit["toGuest"] = "none";
  if (
    await attempt("htb", [
      ["qdisc", "add", ...dev, "root", "handle", "1:", "htb", "default", "1"],
      ["class", "add", ...dev, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", BURST],
    ])
  )
    toGuest = "htb";
  else if (
    await attempt("tbf", [
      ["qdisc", "replace", ...dev, "root", "tbf", "rate", rate, "burst", BURST, "latency", "50ms"],
    ])
  )
    toGuest = "tbf";
  const unshaped = toGuest === "none" ? missing : [];
  missing = [];
  const police = ["police", "rate", rate, "burst", BURST, "mtu", "64kb", "drop"];
  const hasIngress = await attempt("ingress", [["qdisc", "add", ...dev, "handle", "ffff:", "ingress"]]);
  const filter = ["filter", "add", ...dev, "parent", "ffff:", "prio", "50"];
  const policed =
    hasIngress &&
    ((await attempt("basic", [[...filter, "basic", ...police, "flowid", ":1"]])) ||
      (await attempt("matchall", [[...filter, "protocol", "all", "matchall", "action", ...police]])));
  missing = [...unshaped, ...(policed ? [] : missing)];
  if (toGuest === "none" && !policed)
    throw new AppError(
      "feature.unsupported",
      `this kernel cannot limit the rate of ${interfaceName}: ${missing.join("; ")}`,
      { data: { missing } },
    );
  return { toGuest, fromGuest: policed ? "police" : "none", missing };
}
