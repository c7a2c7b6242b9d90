import { beforeEach, describe, expect, it } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createMappingHandlers } from "../../presentation/http/mapping/mapping-handlers.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { Mappings } from "./mappings.ts";

const seeing = (...visible: string[]): RequestContext =>
  ({ access: { has: (path: string) => visible.includes(path) } }) as unknown as RequestContext;
const ctx = seeing("/mapping/pci/gpu", "/mapping/usb/key", "/mapping/dir/share");
const GPU = "node=n1,path=0000:01:00.0,id=10de:1234";

let faults: readonly (readonly string[])[];
let places: readonly (readonly string[])[];
let handlers: ReturnType<typeof createMappingHandlers>;
beforeEach(() => {
  faults = [];
  places = [];
  const mappings = new Mappings({
    records: new MemoryRecords(),
    localNode: "n1",
    check: async (_node, _type, _mappings, _ctx, options) => (options?.onlyPlace === true ? places : faults),
    claimed: () => [{ path: "/etc", owner: "which belongs to the system" }],
  });
  handlers = createMappingHandlers({ mappings });
});
const call = async (route: string, params: object, context = ctx): Promise<unknown> => {
  const handler = (handlers as Record<string, (params: object, ctx: RequestContext) => unknown>)[route];
  return handler?.(params, context);
};

describe("mappings of the cluster", () => {
  it("are made, shown, changed and removed", async () => {
    expect(await call("POST /cluster/mapping/pci", { id: "gpu", map: [GPU], mdev: true })).toBeNull();
    const shown = (await call("GET /cluster/mapping/pci/{id}", { id: "gpu" })) as { digest: string };
    expect(shown).toEqual({
      type: "pci",
      map: [GPU],
      mdev: 1,
      digest: expect.stringMatching(/^[0-9a-f]{40}$/),
    });
    await expect(call("POST /cluster/mapping/pci", { id: "gpu", map: [GPU] })).rejects.toMatchObject({
      message: "create hardware mapping failed: pci ID 'gpu' already defined",
      pveStatus: 500,
    });
    const put = (more: object) => call("PUT /cluster/mapping/pci/{id}", { id: "gpu", map: [GPU], ...more });
    expect(await put({ "live-migration-capable": true, delete: "mdev", digest: shown.digest })).toBeNull();
    expect(await call("GET /cluster/mapping/pci", {})).toMatchObject([
      { id: "gpu", "live-migration-capable": 1 },
    ]);
    await expect(put({ digest: shown.digest })).rejects.toThrow("detected modified configuration");
    await expect(put({ map: undefined })).rejects.toThrow(
      "update hardware mapping failed: missing value for required option 'map'",
    );
    await expect(call("PUT /cluster/mapping/usb/{id}", { id: "x", map: [] })).rejects.toThrow(
      "update hardware mapping failed: usb ID 'x' does not exist",
    );
    expect(await call("DELETE /cluster/mapping/pci/{id}", { id: "gpu" })).toBeNull();
    expect(await call("DELETE /cluster/mapping/pci/{id}", { id: "gpu" })).toBeNull();
    await expect(call("GET /cluster/mapping/pci/{id}", { id: "gpu" })).rejects.toThrow(
      "mapping 'gpu' not found",
    );
  });

  it("are listed to those who may see them", async () => {
    await call("POST /cluster/mapping/usb", { id: "key", map: ["node=n1,id=046d:c52b"] });
    expect(await call("GET /cluster/mapping/usb", {})).toHaveLength(1);
    expect(await call("GET /cluster/mapping/usb", {}, seeing())).toEqual([]);
    expect(await call("GET /cluster/mapping/usb/{id}", { id: "key" })).toMatchObject({ type: "usb" });
    expect(
      await call("PUT /cluster/mapping/usb/{id}", { id: "key", map: ["node=n2,id=046d:c52b"] }),
    ).toBeNull();
    expect(await call("DELETE /cluster/mapping/usb/{id}", { id: "key" })).toBeNull();
  });

  it("are checked on a node, each type with PVE's name for the answer", async () => {
    await call("POST /cluster/mapping/pci", { id: "gpu", map: [GPU] });
    await call("POST /cluster/mapping/usb", { id: "key", map: ["node=n2,id=046d:c52b"] });
    faults = [["pci device '0000:01:00.0' not found"]];
    expect(await call("GET /cluster/mapping/pci", { "check-node": "localhost" })).toMatchObject([
      {
        checks: [
          { severity: "error", message: "Invalid configuration: pci device '0000:01:00.0' not found\n" },
        ],
      },
    ]);
    faults = [[]];
    expect(await call("GET /cluster/mapping/usb", { "check-node": "n1" })).toMatchObject([
      { errors: [{ severity: "warning", message: "No mapping for node n1." }] },
    ]);
  });

  it("of directories need the directory on the node that is asked", async () => {
    faults = [["Path /nowhere does not exist"]];
    const map = ["node=n1,path=/nowhere"];
    await expect(call("POST /cluster/mapping/dir", { id: "share", map })).rejects.toMatchObject({
      message: "Path /nowhere does not exist",
      pveStatus: 500,
    });
    const elsewhere = ["node=n2,path=/nowhere"];
    expect(await call("POST /cluster/mapping/dir", { id: "share", map: elsewhere })).toBeNull();
    await expect(call("PUT /cluster/mapping/dir/{id}", { id: "share", map })).rejects.toThrow(
      "update directory mapping failed: Path /nowhere does not exist",
    );
    expect(await call("GET /cluster/mapping/dir", {})).toHaveLength(1);
    expect(await call("GET /cluster/mapping/dir/{id}", { id: "share" })).toMatchObject({ map: elsewhere });
    expect(await call("DELETE /cluster/mapping/dir/{id}", { id: "share" })).toBeNull();
  });

  it("of directories are refused where no guest may be, here by name and there by what the node says", async () => {
    const make = (path: string): Promise<unknown> =>
      call("POST /cluster/mapping/dir", { id: "share", map: [`node=n2,path=${path}`] });
    await expect(make("//etc/./ssl/")).rejects.toThrow(
      "directory mapping 'share' cannot use /etc/ssl: it lies in /etc",
    );
    places = [["it really is /etc"]];
    await expect(make("/srv/link")).rejects.toThrow("it really is /etc");
  });
});
