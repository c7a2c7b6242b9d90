// The same control plane as a script would start it: keys, an etcd, and the three programs with our own arguments, one after
// the other; until pods could be made. Then the store and the API server once more, on what is there by then, as who sleeps
// is woken. No confinement, no network of its own, nobody who looks after it.
import { mkdtempSync, rmSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ClusterKeys } from "@gpve/agent/infrastructure/vcluster/cluster-keys.ts";
import { kubeCall } from "@gpve/agent/infrastructure/vcluster/kube-api.ts";
import { controlPlaneCertificates } from "@gpve/domain/vcluster/certificates.ts";
import { CONTROL_PLANE_PARTS } from "@gpve/domain/vcluster/cluster-part.ts";
import { controlPlaneCommand } from "@gpve/domain/vcluster/control-plane.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { ignore } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { freePorts } from "../../test/support/parts.ts";

const READY_MS = 300_000;

export interface BareTimes {
  /** Milliseconds until pods could be made. */
  readonly createMs: number;
  /** Of the store and the API server alone, on a store that is filled. */
  readonly againMs: number;
}

export async function bareStart(kubernetes: string, etcd: string): Promise<BareTimes> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-bench-bare-"));
  const [apiPort = 0, clientPort = 0, peerPort = 0] = await freePorts(3);
  const address = ownAddress();
  const spec = readVirtualClusterSpec({});
  const children: { stop(): Promise<void> }[] = [];
  // As ours of this tier: less memory for a little more work.
  const env = { PATH: "/usr/bin:/bin", HOME: folder, GOGC: "25" };
  const end = async (): Promise<void> => {
    for (const child of children.splice(0).toReversed()) await child.stop();
  };
  let begun = performance.now();
  try {
    const keys = new ClusterKeys(join(folder, "pki"), systemClock);
    const { serviceCidr, dnsDomain } = spec;
    await keys.ensure(controlPlaneCertificates({ serviceCidr, dnsDomain, address, alsoKnownAs: [] }));
    for (const part of ["controller-manager", "scheduler"])
      keys.writeKubeconfig(part, `https://${address}:${apiPort}`);
    const url = `http://127.0.0.1:${clientPort}`;
    const peer = `http://127.0.0.1:${peerPort}`;
    const etcdArgs = [
      `--data-dir=${join(folder, "etcd")}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
      "--log-level=error",
    ];
    const store = (): void => void children.push(startChild(etcd, etcdArgs, { env }));
    store();
    const place = {
      address,
      pki: keys.file,
      kubeconfig: (part: string) => keys.file(`${part}.kubeconfig`),
      store: { servers: [url] },
    };
    const { certPem, keyPem } = await keys.issue(
      { commonName: "bench", organisation: "system:masters", usage: "client" },
      3_600_000,
    );
    const to = { host: address, port: apiPort, ca: keys.caPem, cert: certPem, key: keyPem };
    const answers = async (path: string): Promise<void> => {
      const until = performance.now() + READY_MS;
      for (;;) {
        const status = await kubeCall(to, { method: "GET", path }, AbortSignal.timeout(10_000)).then(
          (answer) => answer.status,
          (err: unknown) => {
            ignore(err, "asked again");
            return 0;
          },
        );
        if (status === 200) return;
        if (performance.now() > until) throw new Error(`${path} answers ${status}`);
        await sleep(50);
      }
    };
    const start = (part: (typeof CONTROL_PLANE_PARTS)[number]): void => {
      const { args } = controlPlaneCommand(part, spec, place);
      const own = args.map((arg) =>
        arg.startsWith("--secure-port=6443") ? `--secure-port=${apiPort}` : arg,
      );
      const more = part === "kube-apiserver" ? [`--cert-dir=${join(folder, "cert")}`] : [];
      children.push(startChild(join(kubernetes, part), [...own, ...more], { env }));
    };
    const [first, ...rest] = CONTROL_PLANE_PARTS;
    start(first);
    await answers("/readyz");
    for (const part of rest) start(part);
    await answers("/api/v1/namespaces/default/serviceaccounts/default");
    const createMs = performance.now() - begun;
    await end();
    begun = performance.now();
    store();
    start(first);
    await answers("/readyz");
    return { createMs, againMs: performance.now() - begun };
  } finally {
    await end();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Endpoints of Services may not be loopback addresses. */
function ownAddress(): string {
  const [found] = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal);
  if (found === undefined) throw new Error("this machine has no address beside its loopback");
  return found.address;
}
