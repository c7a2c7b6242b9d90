import { resolve } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { ClusterStatus } from "@gpve/talos/status/cluster-status.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { explaining, fileOf, fileOption, jsonOption, openFolder } from "./around.ts";
import { ownCertificates } from "./merged-access.ts";
import { secretsToLook, withOpenCluster } from "./open.ts";
import { allChecks, insideChoice, insideOptions } from "./checks.ts";

const WATCH_MS = 5_000;

export const talosStatus: CommandSpec = {
  name: "talos status",
  summary: "show how the cluster is",
  details:
    "Machines, versions, etcd, nodes, certificates with the days they have left, the last snapshot. Ends with 1 when something is not as it should be.",
  options: [
    fileOption,
    { flags: "--watch", about: "again every few seconds, until stopped" },
    { flags: "--html [file]", about: "write it as a page (status.html)" },
    jsonOption,
  ],
  examples: [
    "talos status",
    "talos status --watch",
    "talos status --html status.html",
    "talos status -o json",
  ],
  doing: (input) => `look at the cluster of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      for (;;) {
        const status = await statusOf(cli, place);
        const html = input.text("html") ?? (input.flag("html") ? "status.html" : undefined);
        if (html !== undefined) {
          const { statusPage } = await import("@gpve/talos/status/status-page.ts");
          writeFileAtomic(resolve(cli.io.cwd, html), statusPage(status), 0o644);
          cli.out.done(`Wrote ${html}.`);
        } else if (cli.out.forPeople) await printStatus(cli, status);
        else cli.out.data(status);
        if (!input.flag("watch") || cli.signal.aborted) return status.isHealthy ? 0 : 1;
        await cli.io.clock.sleep(WATCH_MS, cli.signal).catch(() => undefined);
      }
    }),
};

export const talosVerify: CommandSpec = {
  name: "talos verify",
  summary: "check that the cluster works, as a list",
  details:
    "Machines run, Talos answers and is ready in the wanted version, etcd is healthy with all its members, the Kubernetes API answers at its endpoint, nodes are ready, certificates last. Then pods are put on every node, into a namespace of their own that is deleted after: nodes reach each other, pods reach pods on other nodes, both with large packets too, names are found, a volume of the default storage class is bound and written. Ends with 1 when a check fails.",
  options: [fileOption, ...insideOptions, jsonOption],
  examples: ["talos verify", "talos verify --outside", "talos verify --output json"],
  doing: (input) => `verify the cluster of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const secrets = await secretsToLook(cli, place);
      const checks = await withOpenCluster(cli, place, secrets, async (opened) => {
        const world = await opened.cluster.observe();
        return allChecks(cli, opened, world, place, { secrets, ...insideChoice(input) });
      });
      const isFine = checks.every((check) => check.isFine);
      if (cli.out.forPeople) printChecks(cli, { checks });
      else cli.out.data({ ok: isFine, checks });
      return isFine ? 0 : 1;
    }),
};

async function statusOf(cli: Cli, place: ClusterFolder): Promise<ClusterStatus> {
  const { clusterStatus } = await import("@gpve/talos/status/cluster-status.ts");
  const secrets = await secretsToLook(cli, place);
  return withOpenCluster(cli, place, secrets, async ({ cluster }) => {
    const own = await ownCertificates(cli, secrets, cluster.lock.formerAuthorities);
    return clusterStatus(cluster.desired(), await cluster.observe(), cluster.lock, secrets, own);
  });
}

export function printChecks(cli: Cli, { checks }: Pick<ClusterStatus, "checks">): void {
  const { green, red } = cli.out.colours;
  for (const { name, isFine, detail, finding } of checks) {
    const more = finding === undefined ? "" : `; gpvectl talos explain ${finding}`;
    cli.out.line(`${isFine ? green("✓") : red("✗")} ${name} (${detail}${more})`);
  }
}

async function printStatus(cli: Cli, status: ClusterStatus): Promise<void> {
  const { labelText } = await import("@gpve/talos/status/cluster-status.ts");
  cli.out.text(
    cli.out.table(status.machines, [
      { header: "MACHINE", field: "name" },
      { header: "HOST", field: "host" },
      { header: "VMID", field: "vmid" },
      { header: "ADDRESS", field: "address" },
      { header: "STATE", field: "state" },
      { header: "TALOS", field: "talos" },
      { header: "KUBELET", field: "kubelet" },
      { header: "ETCD", field: "etcd" },
      { header: "NODE", field: "node" },
    ]),
  );
  printChecks(cli, status);
  const labels = labelText(status);
  if (labels !== "") cli.out.line(`Labels: ${labels}.`);
  cli.out.line(`Last snapshot of etcd: ${status.snapshot?.at ?? "none"}.`);
  cli.out.done(`Last restore drill: ${status.drill?.at ?? "none"}.`);
}
