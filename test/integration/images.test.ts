// `gpvectl image` of the product as a user starts it: an image built by name ends in the storage VMs are made from.
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { apiOf, type Gpve, startGpve } from "../support/gpve.ts";
import { tinyImage } from "../support/images.ts";

let gpve: Gpve;
beforeAll(async () => {
  gpve = await startGpve();
});
afterAll(() => gpve?.stop());

it("builds the tiny image as a task, and lists it where VMs import from", async () => {
  expect(existsSync(await tinyImage())).toBe(true);
  const v1 = apiOf(gpve.credentials, undefined, "/api/v1");
  const pve = apiOf(gpve.credentials);
  const nodes = (await pve("GET", "/nodes")).json.data as { node: string }[];
  const node = nodes[0]?.node ?? "";
  const refused = await v1("POST", `/nodes/${node}/images/alpine/build`);
  expect([refused.status, refused.text]).toEqual([501, expect.stringContaining("only pulled")]);
  const started = await v1("POST", `/nodes/${node}/images/tiny/build`);
  expect(started.status).toBe(202);
  const { task } = started.json as unknown as { task: string };
  await vi.waitFor(
    async () => {
      const status = (await pve("GET", `/nodes/${node}/tasks/${task}/status`)).json.data;
      expect(status).toMatchObject({ status: "stopped", exitstatus: "OK" });
    },
    { timeout: 150_000, interval: 1_000 },
  );
  const { images } = (await v1("GET", `/nodes/${node}/images`)).json as unknown as { images: object[] };
  expect(images).toContainEqual(expect.objectContaining({ name: "tiny", volume: "local:import/tiny.qcow2" }));
  const content = await pve("GET", `/nodes/${node}/storage/local/content?content=import`);
  expect(content.json.data).toMatchObject([{ volid: "local:import/tiny.qcow2", format: "qcow2" }]);
});
