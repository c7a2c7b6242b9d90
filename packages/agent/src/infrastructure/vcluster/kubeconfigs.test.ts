import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { type RevokedKubeconfigs, withRevoked } from "@gpve/domain/vcluster/revoked.ts";
import { revokeKubeconfig, sweepEnded } from "./kubeconfigs.ts";

const credentials = { host: "", port: 0, ca: "", cert: "", key: "" };
const { signal } = new AbortController();

test("bindings of kubeconfigs that have ended go, and no others", async () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  const binding = (name: string, endsAt?: string, creationTimestamp = "2025-12-31T00:00:00Z") => ({
    metadata: {
      name,
      creationTimestamp,
      ...(endsAt === undefined ? {} : { annotations: { "gpve.io/ends-at": endsAt } }),
    },
  });
  const ended = Array.from({ length: 30 }, (_none, at) => `gpve:kubeconfig:ended${at}`);
  const items = [
    binding("gpve:kubeconfig:good", "2026-01-03T00:00:00Z"),
    binding("gpve:kubeconfig:former"),
    binding("gpve:kubeconfig:odd", "soon"),
    // Longer than a year and a day no certificate is good, whatever stands there.
    binding("gpve:kubeconfig:nameless", undefined, "2024-12-31T00:00:00Z"),
    binding("gpve:kubeconfig:endless", "2099-01-01T00:00:00Z", "2024-12-31T00:00:00Z"),
    binding("somebody-elses", "2026-01-01T00:00:00Z"),
    ...ended.map((name) => binding(name, "2026-01-01T00:00:00Z")),
  ];
  const asked: string[] = [];
  await sweepEnded(credentials, now, signal, async (_to, { method, path }) => {
    asked.push(`${method} ${decodeURIComponent(path.split("/").at(-1) ?? "")}`);
    return { status: 200, body: method === "GET" ? JSON.stringify({ items }) : "{}" };
  });
  // Some at a time: who asks for a kubeconfig waits for it.
  expect(asked).toEqual([
    "GET clusterrolebindings",
    ...["gpve:kubeconfig:nameless", "gpve:kubeconfig:endless", ...ended]
      .slice(0, 20)
      .map((name) => `DELETE ${name}`),
  ]);
  await expect(
    sweepEnded(credentials, now, signal, async () => ({ status: 503, body: "{}" })),
  ).rejects.toThrow("refused GET");
});

test("a kubeconfig that is revoked is denied before its binding goes, also where that is gone", async () => {
  const cluster = { name: "demo" } as KeptCluster;
  const did: string[] = [];
  let revoked: RevokedKubeconfigs = {};
  const keys = {
    get revoked() {
      return revoked;
    },
    revoke: (id: string) => {
      revoked = withRevoked(revoked, id, 0);
    },
  };
  const deny = (): void => void did.push(`deny ${Object.keys(revoked).join()}`);
  const answers = [200, 404, 503];
  const revoke = (id: string) =>
    revokeKubeconfig({ cluster, credentials, keys, deny }, id, signal, async (_to, { method, path }) => {
      did.push(`${method} ${decodeURIComponent(path.split("/").at(-1) ?? "")}`);
      return { status: answers.shift() ?? 404, body: "{}" };
    });
  const [first, other] = ["0123456789abcdef", "1123456789abcdef"];
  await revoke(first);
  // Again, as another replica had not heard of it.
  await revoke(first);
  await expect(revoke(first)).rejects.toThrow("refused DELETE");
  await expect(revoke(other)).rejects.toThrow("virtual cluster demo has no kubeconfig '1123456789abcdef'");
  await expect(revoke("../secrets")).rejects.toThrow("is no id of a kubeconfig");
  const once = [`deny ${first}`, `DELETE gpve:kubeconfig:${first}`];
  expect(did).toEqual([
    ...once,
    ...once,
    ...once,
    `deny ${first},${other}`,
    `DELETE gpve:kubeconfig:${other}`,
  ]);
});
