// A NIC's `rate`, enforced with what the kernel has. What leaves the tap towards the guest is shaped, what comes from
// the guest is policed: by tc as PVE does, or by nftables where the kernel has no classifier or policer for tc.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface RateLimit {
  readonly toGuest: "htb" | "tbf" | "none";
  readonly fromGuest: "police" | "nft" | "none";
  /** Why a direction has no limit; empty when both have one. */
  readonly missing: readonly string[];
}

export interface RateTools {
  readonly exec: Exec;
  /** What the names of our nft tables (family netdev, one for each interface) begin with. */
  readonly table: string;
}

const BURST_BYTES = 1024 * 1024;
const BURST = `${BURST_BYTES}b`;

/** 0 = no limit. Megabytes per second, as PVE counts them. */
export async function limitRate(
  interfaceName: string,
  megabytesPerSecond: number,
  { exec, table }: RateTools,
): Promise<RateLimit> {
  const tc = async (...args: string[]): Promise<void> => {
    await exec("tc", args);
  };
  const nft = async (...commands: string[]): Promise<void> => {
    await exec("nft", [commands.join("; ")]);
  };
  const own = `netdev ${tableOf(table, interfaceName)}`;
  const olds = [
    () => tc("qdisc", "del", "dev", interfaceName, "root"),
    () => tc("qdisc", "del", "dev", interfaceName, "ingress"),
    () => nft(`delete table ${own}`),
  ];
  for (const remove of olds) await remove().catch((err: unknown) => ignore(err, "there was none"));
  if (megabytesPerSecond <= 0) return { toGuest: "none", fromGuest: "none", missing: [] };
  const bytes = Math.round(megabytesPerSecond * 1024 * 1024);
  const rate = `${bytes}bps`;
  const attempt = async (reasons: string[], what: string, work: () => Promise<void>): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (err) {
      reasons.push(`${what}: ${messageOf(err)}`);
      return false;
    }
  };
  const dev = ["dev", interfaceName];
  const htb = async (): Promise<void> => {
    await tc("qdisc", "add", ...dev, "root", "handle", "1:", "htb", "default", "1");
    await tc("class", "add", ...dev, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", BURST);
  };
  const tbf = (): Promise<void> =>
    tc("qdisc", "replace", ...dev, "root", "tbf", "rate", rate, "burst", BURST, "latency", "50ms");
  const unshaped: string[] = [];
  const toGuest = (await attempt(unshaped, "htb", htb))
    ? "htb"
    : (await attempt(unshaped, "tbf", tbf))
      ? "tbf"
      : "none";

  const police = ["police", "rate", rate, "burst", BURST, "mtu", "64kb", "drop"];
  const filter = ["filter", "add", ...dev, "parent", "ffff:", "prio", "50"];
  const unpoliced: string[] = [];
  const hasIngress = await attempt(unpoliced, "ingress", () =>
    tc("qdisc", "add", ...dev, "handle", "ffff:", "ingress"),
  );
  const isPoliced =
    hasIngress &&
    ((await attempt(unpoliced, "basic", () => tc(...filter, "basic", ...police, "flowid", ":1"))) ||
      (await attempt(unpoliced, "matchall", () =>
        tc(...filter, "protocol", "all", "matchall", "action", ...police),
      )));
  const hook = `{ type filter hook ingress device "${interfaceName}" priority 0; policy accept; }`;
  const isLimited =
    !isPoliced &&
    (await attempt(unpoliced, "nft", () =>
      nft(
        `add table ${own}`,
        `add chain ${own} rate ${hook}`,
        `add rule ${own} rate limit rate over ${bytes} bytes/second burst ${BURST_BYTES} bytes drop`,
      ),
    ));
  const fromGuest = isPoliced ? "police" : isLimited ? "nft" : "none";
  const missing = [
    ...(toGuest === "none" ? [`what goes to the guest is not limited: ${unshaped.join("; ")}`] : []),
    ...(fromGuest === "none" ? [`what comes from the guest is not limited: ${unpoliced.join("; ")}`] : []),
  ];
  if (missing.length === 2)
    throw new AppError(
      "feature.unsupported",
      `this kernel cannot limit the rate of ${interfaceName}: ${missing.join("; ")}`,
      { data: { missing } },
    );
  return { toGuest, fromGuest, missing };
}

/** Limits by nftables outlive the interface they were for: those without one are removed. Returns how many stay. */
export async function sweepLimits(
  { exec, table }: RateTools,
  exists: (interfaceName: string) => boolean = () => false,
): Promise<number> {
  const { stdout } = await exec("nft", ["list", "tables", "netdev"]);
  const names = stdout.split("\n").map((line) => line.replace("table netdev ", ""));
  let kept = 0;
  for (const name of names.filter((each) => each.startsWith(tableOf(table, "")))) {
    if (exists(name.slice(tableOf(table, "").length))) kept += 1;
    else await exec("nft", [`delete table netdev ${name}`]);
  }
  return kept;
}

function tableOf(table: string, interfaceName: string): string {
  return `${table}_${interfaceName}`;
}
