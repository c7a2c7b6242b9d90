// Virtual clusters whose store is no database of ours: an etcd of their own, and one that somebody else runs; and whose users
// somebody else vouches for.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Gpve } from "../support/gpve.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import { ForeignEtcd } from "../support/foreign-etcd.ts";
import { OidcIssuer } from "../support/oidc-issuer.ts";
import {
  canRunClusters,
  ctl,
  kubectl,
  pidOf,
  privateMiB,
  startWithComponents,
} from "../support/vclusters.ts";

const isLong = process.env["GPVE_VC_ETCD_RESTORE"] === "1";
if (!canRunClusters)
  console.warn("SKIPPED: stores of virtual clusters need root and Kubernetes in this machine's cache");

describe.skipIf(!canRunClusters)("a virtual cluster", () => {
  let gpve: Gpve;
  let folder: string;
  const file = (name: string): string => join(folder, `${name}.kubeconfig`);
  const keepKubeconfig = async (name: string): Promise<void> => {
    const { out } = await ctl(gpve, "vc", "kubeconfig", name);
    writeFileSync(file(name), out, { mode: 0o600 });
  };
  const word = async (name: string): Promise<string> =>
    (await kubectl(file(name), "get", "configmap", "c", "-o", "jsonpath={.data.word}")).out;
  const pki = (name: string, each: string): string =>
    join(gpve.data, "vclusters/clusters", name, "pki", each);
  const write = (name: string, text: string) =>
    kubectl(file(name), "create", "configmap", "c", `--from-literal=word=${text}`);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-stores-"));
    gpve = await startWithComponents();
  });
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    for (const each of [gpve.data, folder]) rmSync(each, { recursive: true, force: true });
  });

  describe("of tier Performance", () => {
    test("has an etcd of its own", async () => {
      const began = performance.now();
      const made = await ctl(gpve, "vc", "create", "big", "--tier", "Performance", "--wait");
      expect(made).toMatchObject({ code: 0 });
      await keepKubeconfig("big");
      expect(await write("big", "kept")).toMatchObject({ code: 0 });
      const ready = await kubectl(file("big"), "get", "--raw", "/readyz?verbose");
      expect(ready.out).toContain("[+]etcd ok");
      const memory = privateMiB(pidOf(gpve, "big.etcd"));
      console.info(`made in ${Math.round(performance.now() - began)} ms; its etcd has ${memory} MiB`);
    }, 600_000);

    test("lets nobody in to its etcd without a certificate", async () => {
      const { out } = await ctl(gpve, "get", "vc", "big", "-o", "json");
      const port = Number(
        new URL((JSON.parse(out) as { status: { endpoint: string } }).status.endpoint).port,
      );
      const network = port - 16_443;
      const url = `https://100.${80 + Math.floor(network / 256)}.${network % 256}.2:2379/health`;
      const { code, stdout } = await exec("curl", ["-sk", "-m", "5", url], { okCodes: [0, 35, 52, 55, 56] });
      expect([code === 0, stdout]).toEqual([false, ""]);
    });

    test("gets its etcd back when that was killed, and is found again by the next agent", async () => {
      const before = pidOf(gpve, "big.etcd");
      await gpve.kill();
      gpve = await gpve.restart();
      expect(pidOf(gpve, "big.etcd")).toBe(before);
      process.kill(before, "SIGKILL");
      await expect.poll(() => word("big"), { timeout: 120_000, interval: 1_000 }).toBe("kept");
      expect(pidOf(gpve, "big.etcd")).not.toBe(before);
    });

    test.each(["warm", "cold"])("sleeps %s and wakes for whoever asks", async (mode) => {
      expect(await ctl(gpve, "vc", "sleep", "big", "--mode", mode)).toMatchObject({ code: 0 });
      expect((await ctl(gpve, "vc", "list")).out).toMatch(new RegExp(`^big +default +Running +${mode}`, "m"));
      const began = performance.now();
      await expect.poll(() => word("big"), { timeout: 120_000 }).toBe("kept");
      console.info(`from ${mode}: ${Math.round(performance.now() - began)} ms`);
    });

    test.runIf(isLong)(
      "is backed up; a backup becomes an etcd beside it, and takes its place",
      async () => {
        expect(await ctl(gpve, "vc", "backup", "big")).toMatchObject({ code: 0 });
        const { out } = await ctl(gpve, "vc", "backups", "big", "-o", "json");
        const [archive = ""] = /local:backup\/vzdump-vc-big_default-[\w-]+\.tar\.gz/.exec(out) ?? [];
        expect(await kubectl(file("big"), "delete", "configmap", "c")).toMatchObject({ code: 0 });
        expect(await ctl(gpve, "vc", "restore", "copy", "--from", archive)).toMatchObject({ code: 0 });
        await keepKubeconfig("copy");
        await expect.poll(() => word("copy"), { timeout: 150_000 }).toBe("kept");
        expect(pidOf(gpve, "copy.etcd")).toBeGreaterThan(1);
        expect((await kubectl(file("copy"), "get", "--raw", "/readyz?verbose")).out).toContain("[+]etcd ok");
        // A stranger to the other: it has authorities of its own.
        expect(readFileSync(pki("copy", "ca.crt"), "utf8")).not.toBe(
          readFileSync(pki("big", "ca.crt"), "utf8"),
        );
        expect(await ctl(gpve, "vc", "delete", "copy", "--yes")).toMatchObject({ code: 0 });
        const over = ["vc", "restore", "big", "--from", archive, "--over", "--yes"];
        expect(await ctl(gpve, ...over)).toMatchObject({ code: 0 });
        // Kubeconfigs of before are good, and what was deleted since the backup is there.
        await expect.poll(() => word("big"), { timeout: 150_000 }).toBe("kept");
        const { data } = gpve;
        expect(existsSync(join(data, "vclusters/clusters/big/saves/before-restore"))).toBe(false);
        expect(existsSync(join(data, "vclusters/clusters/big/etcd/member"))).toBe(true);
      },
      900_000,
    );

    test("stops, starts with all that was in it, and leaves nothing behind", async () => {
      expect(await ctl(gpve, "vc", "stop", "big")).toMatchObject({ code: 0 });
      expect(await ctl(gpve, "vc", "start", "big")).toMatchObject({ code: 0 });
      await expect.poll(() => word("big"), { timeout: 150_000 }).toBe("kept");
      expect(await ctl(gpve, "vc", "delete", "big", "--yes")).toMatchObject({ code: 0 });
      await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
    });
  });

  describe("with an OpenID issuer", () => {
    let issuer: OidcIssuer;
    const as = (token: string, ...argv: readonly string[]) => {
      const own = join(folder, "token.kubeconfig");
      const config = JSON.parse(readFileSync(file("known"), "utf8")) as { users: { name: string }[] };
      const users = config.users.map(({ name }) => ({ name, user: { token } }));
      writeFileSync(own, JSON.stringify({ ...config, users }), { mode: 0o600 });
      return kubectl(own, ...argv);
    };

    beforeAll(async () => {
      issuer = await OidcIssuer.start();
      const oidc = {
        issuerUrl: issuer.url,
        clientId: "kube",
        usernameClaim: "email",
        groupsClaim: "groups",
        ca: issuer.ca,
      };
      const manifest = join(folder, "known.json");
      const object = { apiVersion: "gpve.io/v1", kind: "VirtualCluster", metadata: { name: "known" } };
      writeFileSync(manifest, JSON.stringify({ ...object, spec: { controlPlane: { oidc } } }));
      expect(await ctl(gpve, "apply", "-f", manifest)).toMatchObject({ code: 0 });
      await vi.waitFor(
        async () => expect((await ctl(gpve, "vc", "list")).out).toMatch(/^known +default +Running/m),
        { timeout: 300_000, interval: 500 },
      );
      await keepKubeconfig("known");
    }, 600_000);
    afterAll(() => issuer.stop());

    test("knows whom it vouches for, and lets them do what its roles say", async () => {
      const grant = ["create", "rolebinding", "ops", "--clusterrole=view", "--group=oidc:ops"];
      expect(await kubectl(file("known"), ...grant)).toMatchObject({ code: 0 });
      const ada = issuer.token({ sub: "1", email: "ada@example.com", groups: ["ops", "system:masters"] });
      await expect
        .poll(async () => (await as(ada, "auth", "whoami", "-o", "json")).out, { timeout: 150_000 })
        .toContain('"username": "oidc:ada@example.com"');
      expect((await as(ada, "get", "configmaps")).code).toBe(0);
      // What it says of groups are names of its own: this is not the group that may do everything.
      expect((await as(ada, "get", "secrets", "-A")).err).toContain("oidc:ada@example.com");
      expect((await as(ada, "auth", "whoami", "-o", "json")).out).toContain('"oidc:system:masters"');
    });

    test("refuses tokens for others, of others, and that have ended", async () => {
      const ada = { sub: "1", email: "ada@example.com" };
      const now = Math.floor(Date.now() / 1_000);
      const bad = [
        issuer.token(ada, "another"),
        issuer.token({ ...ada, iss: "https://198.19.0.1" }),
        issuer.token({ ...ada, exp: now - 60 }),
        issuer.token(ada).replace(/.{8}$/, "AAAAAAAA"),
      ];
      for (const token of bad)
        expect((await as(token, "get", "configmaps")).err).toMatch(/Unauthorized|logged in/);
      expect(await ctl(gpve, "vc", "delete", "known", "--yes")).toMatchObject({ code: 0 });
      await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
    });
  });

  describe("on an etcd that somebody else runs", () => {
    let etcd: ForeignEtcd;
    const apply = (name: string, endpoint: string) => {
      const manifest = join(folder, `${name}.json`);
      const controlPlane = {
        backingStore: "external",
        externalEtcdEndpoint: endpoint,
        externalEtcdCertificates: etcd.client,
      };
      const object = { apiVersion: "gpve.io/v1", kind: "VirtualCluster", metadata: { name } };
      writeFileSync(manifest, JSON.stringify({ ...object, spec: { controlPlane } }), { mode: 0o600 });
      return ctl(gpve, "apply", "-f", manifest);
    };
    const running = (name: string) =>
      expect
        .poll(async () => (await ctl(gpve, "vc", "list")).out, { timeout: 120_000, interval: 500 })
        .toMatch(new RegExp(`^${name} +default +Running`, "m"));

    beforeAll(async () => {
      etcd = await ForeignEtcd.start(folder);
    });
    afterAll(() => etcd.stop());

    test("keeps its objects there, below a prefix of its own, and its keys to itself", async () => {
      expect(await apply("out", etcd.url)).toMatchObject({ code: 0 });
      await running("out");
      await keepKubeconfig("out");
      expect(await write("out", "abroad")).toMatchObject({ code: 0 });
      expect(await word("out")).toBe("abroad");
      expect(await etcd.keys()).toEqual(
        expect.arrayContaining([
          expect.stringMatching(/^\/gpve\/default\/out\/[0-9a-f]{12}\/configmaps\/default\/c$/),
        ]),
      );
      const shown = await ctl(gpve, "get", "vc", "out", "-o", "json");
      expect(shown.out).toContain(etcd.url);
      expect(shown.out).not.toContain("PRIVATE KEY");
    });

    test("applied again as it is, nothing is to be done", async () => {
      expect(await apply("out", etcd.url)).toMatchObject({
        code: 0,
        out: expect.not.stringContaining("create"),
      });
    });

    test("finds all of it there after it was stopped", async () => {
      expect(await ctl(gpve, "vc", "stop", "out")).toMatchObject({ code: 0 });
      expect(await ctl(gpve, "vc", "start", "out")).toMatchObject({ code: 0 });
      await expect.poll(() => word("out"), { timeout: 150_000 }).toBe("abroad");
    });

    test("takes its objects away when it goes", async () => {
      expect(await ctl(gpve, "vc", "delete", "out", "--yes")).toMatchObject({ code: 0 });
      expect(await etcd.keys()).toEqual([]);
      await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
    });
  });
});
