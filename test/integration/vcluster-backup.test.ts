// A virtual cluster on real Kubernetes is backed up, loses what it had, and comes back: as another cluster, and as itself.
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Gpve } from "../support/gpve.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import { canRunClusters, ctl, kubectl, startWithComponents } from "../support/vclusters.ts";

if (!canRunClusters)
  console.warn("SKIPPED: backups of virtual clusters need root and Kubernetes in this machine's cache");

describe.skipIf(!canRunClusters)("a backup of a virtual cluster", () => {
  let gpve: Gpve;
  let archive = "";
  const kubeconfig = (name: string): string => join(gpve.data, `${name}.kubeconfig`);
  const takeKubeconfig = async (name: string): Promise<void> => {
    const { out } = await ctl(gpve, "vc", "kubeconfig", name);
    writeFileSync(kubeconfig(name), out, { mode: 0o600 });
  };
  const word = async (name: string): Promise<string> => {
    const path = "jsonpath={.data.word}";
    const { out, err } = await kubectl(kubeconfig(name), "get", "secret", "s", "-o", path);
    return out === "" ? err : Buffer.from(out, "base64").toString();
  };

  beforeAll(async () => {
    gpve = await startWithComponents();
    expect(await ctl(gpve, "vc", "create", "demo", "--wait")).toMatchObject({ code: 0 });
    await takeKubeconfig("demo");
    const made = ["create", "secret", "generic", "s", "--from-literal=word=openSesame"];
    expect(await kubectl(kubeconfig("demo"), ...made)).toMatchObject({ code: 0 });
  }, 600_000);
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("is an archive on the storage, listed there as backups are", async () => {
    const made = await ctl(gpve, "vc", "backup", "demo");
    expect(made).toMatchObject({ code: 0 });
    console.info(made.err);
    const listed = await ctl(gpve, "vc", "backups", "demo", "-o", "json");
    const [row] = JSON.parse(listed.out) as { archive: string; notes: string }[];
    archive = row?.archive ?? "";
    expect(row).toMatchObject({
      archive: expect.stringMatching(/^local:backup\/vzdump-vc-demo_default-/),
      notes: expect.stringContaining("virtual cluster default/demo"),
    });
    const node = (
      JSON.parse((await ctl(gpve, "get", "vc", "demo", "-o", "json")).out) as { status: { node: string } }
    ).status.node;
    const content = await ctl(gpve, "api", "get", `/nodes/${node}/storage/local/content`, "content=backup");
    expect(content.out).toContain(archive);
  });

  test("counts for its tenant: no more are made than the quota lets", async () => {
    expect(await ctl(gpve, "api", "post", "/pools", "poolid=default")).toMatchObject({ code: 0 });
    expect(await ctl(gpve, "quota", "set", "default", "backups=1")).toMatchObject({ code: 0 });
    const refused = await ctl(gpve, "vc", "backup", "demo");
    expect(refused).toMatchObject({
      err: expect.stringContaining("unable to back up virtual cluster demo: quota exceeded - backups"),
    });
    expect(await ctl(gpve, "quota", "set", "default", "backups=50")).toMatchObject({ code: 0 });
  });

  test("is made by a backup job too, which keeps as many as it says", async () => {
    const job = ["id=often", "schedule=*:*:0/5", "all=1", "storage=local", "prune-backups=keep-last=2"];
    expect(await ctl(gpve, "api", "post", "/cluster/backup", ...job)).toMatchObject({ code: 0 });
    const archives = async (): Promise<readonly string[]> => {
      const { out } = await ctl(gpve, "vc", "backups", "demo", "-o", "json");
      return (JSON.parse(out) as { archive: string }[]).map((row) => row.archive);
    };
    // The one that was made by hand is the oldest, and goes first.
    await expect
      .poll(archives, { timeout: 120_000, interval: 1_000 })
      .toEqual([expect.not.stringMatching(archive), expect.not.stringMatching(archive)]);
    expect(await ctl(gpve, "api", "delete", "/cluster/backup/often")).toMatchObject({ code: 0 });
    // What it began goes on, and takes the older one away.
    const underWay = async (): Promise<readonly unknown[]> => {
      const { out } = await ctl(gpve, "api", "get", "/cluster/tasks", "-o", "json");
      return (JSON.parse(out) as { status?: string }[]).filter(({ status }) => status === undefined);
    };
    await expect.poll(underWay, { timeout: 120_000, interval: 500 }).toEqual([]);
    archive = (await archives()).at(-1) ?? "";
  });

  test("becomes another cluster, which has what was deleted since, and in which old kubeconfigs are strangers", async () => {
    expect(await kubectl(kubeconfig("demo"), "delete", "secret", "s")).toMatchObject({ code: 0 });
    const made = await ctl(gpve, "vc", "restore", "copy", "--from", archive);
    expect(made).toMatchObject({ code: 0 });
    console.info(made.err);
    await takeKubeconfig("copy");
    expect(await word("copy")).toBe("openSesame");
    expect(await word("demo")).toContain("not found");
    const { out } = await ctl(gpve, "get", "vc", "copy", "-o", "json");
    const { endpoint } = (JSON.parse(out) as { status: { endpoint: string } }).status;
    const strange = await kubectl(kubeconfig("demo"), "--server", endpoint, "get", "secret", "s");
    expect(strange.err).toMatch(/certificate|x509|Unauthorized/);
  });

  test("takes the place of the cluster when that is said, and its kubeconfigs stay good", async () => {
    const refused = await ctl(gpve, "vc", "restore", "demo", "--from", archive);
    expect(refused.err).toContain("already exists");
    expect(await ctl(gpve, "vc", "restore", "demo", "--from", archive, "--over", "--yes")).toMatchObject({
      code: 0,
    });
    expect(await word("demo")).toBe("openSesame");
    expect(existsSync(join(gpve.data, "vclusters/clusters/demo/saves/before-restore"))).toBe(false);
  });

  test("is made of one that sleeps, without waking it", async () => {
    expect(await ctl(gpve, "vc", "sleep", "copy")).toMatchObject({ code: 0 });
    expect(await ctl(gpve, "vc", "backup", "copy")).toMatchObject({ code: 0 });
    const { out } = await ctl(gpve, "get", "vc", "copy", "-o", "json");
    expect((JSON.parse(out) as { status: { power: string } }).status.power).toBe("cold");
    expect(existsSync(join(gpve.data, "vclusters/store/serve/copy"))).toBe(false);
  });

  test("that is damaged becomes no cluster, and says why", async () => {
    const { out } = await ctl(gpve, "api", "get", "/storage/local", "-o", "json");
    const { path } = JSON.parse(out) as { path: string };
    writeFileSync(join(path, "dump", archive.slice("local:backup/".length)), "no archive");
    const said = await ctl(gpve, "vc", "restore", "broken", "--from", archive);
    expect(said.code).not.toBe(0);
    expect(said.err).toContain("no node can read the backup");
    expect((await ctl(gpve, "vc", "list")).out).not.toMatch(/^broken/m);
  });

  test("the API server has written down who did what, and nothing of what was in it", async () => {
    const { out } = await ctl(gpve, "vc", "logs", "demo", "--audit");
    expect(out).toContain('"verb":"create"');
    expect(out).toContain('"resource":"secrets"');
    expect(out).not.toContain(Buffer.from("openSesame").toString("base64"));
  });

  test("leaves nothing behind when both are deleted, but the archives", async () => {
    for (const name of ["demo", "copy"])
      expect(await ctl(gpve, "vc", "delete", name, "--yes")).toMatchObject({ code: 0 });
    await expect.poll(() => leftOfClusters(gpve.data), { timeout: 150_000 }).toEqual([]);
  });
});
