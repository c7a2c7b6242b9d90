import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { StorageWorld } from "../../testing/storage-world.ts";

let server: Server;
let url = "";
beforeAll(async () => {
  server = createServer((_req, res) => res.end("body"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a.iso`;
});
afterAll(() => void server.close());

function saga(
  prepare: (world: StorageWorld) => Promise<void> | void,
  submit: (world: StorageWorld) => { type: string; args: unknown },
  check: (world: StorageWorld, outcome: "done" | "undone") => void,
): Promise<unknown> {
  return testSaga<StorageWorld>({
    prepare: async () => {
      const world = new StorageWorld();
      await world.storages.open("local");
      await prepare(world);
      return world;
    },
    define: (engine, world) => {
      world.register(engine);
      return { ...submit(world), resources: ["volume/x"] };
    },
    check,
    cleanup: (world) => world.remove(),
  });
}

describe("storage operations end done or undone, wherever they are cut off", () => {
  it("receiving an upload", async () => {
    await saga(
      (world) => writeFileSync(join(world.uploads, "u"), "body"),
      (world) => ({
        type: "imgcopy",
        args: { kind: "upload", volid: "local:iso/a.iso", spooled: join(world.uploads, "u") },
      }),
      (world) => expect(readdirSync(world.uploads)).toEqual([]),
    );
  });

  it("copying a volume", async () => {
    await saga(
      (world) => void world.put("template/iso/a.iso"),
      () => ({
        type: "imgcopy",
        args: { kind: "copy", source: "local:iso/a.iso", target: "local:iso/b.iso" },
      }),
      (world, outcome) =>
        expect(existsSync(join(world.root, "local/template/iso/b.iso"))).toBe(outcome === "done"),
    );
  });

  it("downloading", async () => {
    await saga(
      () => undefined,
      () => ({ type: "download", args: { volid: "local:iso/a.iso", url, verifyCertificates: true } }),
      (world, outcome) => {
        const names = readdirSync(join(world.root, "local/template/iso"));
        expect(names).toEqual(outcome === "done" ? ["a.iso"] : []);
      },
    );
  });

  it("removing a volume", async () => {
    await saga(
      (world) => void world.put("template/iso/a.iso"),
      () => ({ type: "imgdel", args: { volid: "local:iso/a.iso" } }),
      (world, outcome) => {
        if (outcome === "done") expect(existsSync(join(world.root, "local/template/iso/a.iso"))).toBe(false);
      },
    );
  });
});
