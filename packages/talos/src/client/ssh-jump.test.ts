// With a program in ssh's place that does what ssh's arguments say; the real one has an integration test.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import { exec } from "@gpve/kit/exec.ts";
import { machinesOf } from "../cluster/machines.ts";
import { StandInClusters } from "../testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { ClusterWays } from "./cluster-ways.ts";
import { Jumps } from "./jumps.ts";

let folder: string;
let node: TalosStandIn | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-ssh-test-"));
});
afterEach(async () => {
  await node?.stop();
  node = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Passes on to the target with its port, whatever its host: as if it were behind. */
function program(login = 0): string {
  const path = join(folder, "ssh");
  writeFileSync(
    path,
    `#!${process.execPath}
const { appendFileSync } = require("node:fs");
const { connect } = require("node:net");
const args = process.argv.slice(2);
appendFileSync(${JSON.stringify(join(folder, "calls"))}, JSON.stringify(args) + "\\n");
if (args[0] !== "-W") {
  if (${login} !== 0) console.error("Host key verification failed.");
  process.exit(${login});
}
const socket = connect(Number(args[1].split(":").at(-1)), "127.0.0.1");
process.stdin.pipe(socket).pipe(process.stdout);
socket.on("error", () => process.exit(255));
socket.on("close", () => process.exit(0));
`,
  );
  chmodSync(path, 0o755);
  return path;
}

const calls = (): string[][] =>
  readFileSync(join(folder, "calls"), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as string[]);

function place(jump?: object) {
  const provider = {
    name: "pve",
    type: "qm",
    nodes: ["pve1"],
    storage: { image: "local", vm: "local", efi: "local", cloudinit: "local" },
  };
  const cluster = testCluster({ providers: [{ ...provider, ...given({ jump }) }] });
  return { cluster, machines: machinesOf(cluster) };
}

const deps = (login = 0) => ({
  exec,
  folder: "/clusters",
  env: { HOME: "/home/op", SECRET: "s" },
  program: program(login),
});

test("machines and Kubernetes are reached through the host, whose key is pinned", async () => {
  const { cluster, machines } = place({ host: "pve.example", user: "op", knownHosts: "known", port: 2222 });
  node = await TalosStandIn.start({ uuid: "u", version: "v1.13.9", clusters: new StandInClusters() });
  const clock = { ...instantClock(), now: () => Date.now() };
  const opened = await ClusterWays.open({ cluster, machines }, await testBundle(Date.now()), {
    clock,
    ...deps(),
  });
  // Nobody here has this address.
  const address = `192.0.2.7:${node.port}`;
  const client = await opened.talos.stranger({ name: "prod-cp-1", address }, 20_000);
  expect(await client.version()).toMatchObject({ tag: "v1.13.9" });
  client.close();
  await expect(opened.kubernetes.nodes()).rejects.toMatchObject({ code: "node.unavailable" });
  await opened.close();
  const seen = calls();
  expect(seen[0]?.slice(0, 2)).toEqual(["-f", "-N"]);
  expect(seen.map((args) => args.slice(0, 2).join(" "))).toEqual(
    expect.arrayContaining([`-W ${address}`, "-W 10.0.0.9:6443", "-O exit"]),
  );
  for (const args of seen) {
    expect(args).toEqual(expect.arrayContaining(["StrictHostKeyChecking=yes", "BatchMode=yes"]));
    expect(args).toContain("UserKnownHostsFile=/clusters/known");
    expect(args.slice(-2)).toEqual(["--", "pve.example"]);
  }
});

test("a host that does not let us in is told before anything is done", async () => {
  const opening = Jumps.open(place({ host: "pve.example" }), deps(255));
  await expect(opening).rejects.toMatchObject({
    message: expect.stringMatching(/root@pve\.example:22.*Host key verification failed/s),
    data: { finding: "jump-refused" },
  });
});

test("without a jump nothing is started", async () => {
  const jumps = await Jumps.open(place(), deps());
  expect(jumps.dialOf("prod-cp-1")).toBeUndefined();
  expect(jumps.endpoint()).toBeUndefined();
  await jumps.close();
  expect(() => calls()).toThrow("ENOENT");
});

test.each(["-oProxyCommand=x", "host name", "a;b", ""])("%j is no host", (host) => {
  expect(() => place({ host })).toThrow(/jump/);
});
