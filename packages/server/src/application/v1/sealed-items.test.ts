import { expect, it } from "vitest";
import { createSealer } from "../../infrastructure/secrets/sealer.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";
import { createKindAdapters } from "./kind-adapters.ts";
import { SealedItems } from "./sealed-items.ts";

const board = { list: () => [], get: () => undefined, generation: () => 1 };
const vclusters = {} as never;
const vmActions = {} as never;
const adapters = createKindAdapters({
  board,
  ...quietKinds,
  ownNode: () => undefined,
  vclusters,
  vmActions,
});
const seals = new SealedItems(createSealer(new Uint8Array(32)), adapters);

const vm = {
  kind: "VirtualMachine",
  name: "100",
  spec: {
    cloudInit: { user: "u", password: "$5$secret$hash" },
    config: { cipassword: "$5$secret$hash", cores: "2" },
  },
};
const cluster = {
  kind: "VirtualCluster",
  name: "abroad",
  spec: {
    controlPlane: {
      backingStore: "external",
      externalEtcdCertificates: { ca: "CA", cert: "CERT", key: "secret" },
    },
  },
};

it.each([vm, cluster])("leaves no secret of a $kind in what is journaled, and gives it back", (item) => {
  const kept = seals.seal(item);
  expect(JSON.stringify(kept)).not.toContain("secret");
  expect(kept).toMatchObject({ kind: item.kind, name: item.name });
  expect(seals.open(JSON.parse(JSON.stringify(kept)) as typeof item)).toEqual(item);
});

it("keeps what is no secret as it is, opens what was never sealed, and is about one object alone", () => {
  expect(seals.seal(vm).spec).toMatchObject({ cloudInit: { user: "u" }, config: { cores: "2" } });
  const bare = { kind: "VirtualMachine", name: "100", spec: { cloudInit: "odd" } };
  expect(seals.seal(bare)).toEqual(bare);
  expect(seals.open(vm)).toEqual(vm);
  expect(() => seals.open({ ...seals.seal(vm), name: "101" })).toThrow("cannot open the secret");
  expect(() => seals.seal({ ...vm, kind: "Moon" })).toThrow("does not serve Moon objects");
});
