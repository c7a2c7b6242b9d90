import { expect, it } from "vitest";
import methods from "@gpve/contracts/gen/pve-api.json" with { type: "json" };
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { isImplemented } from "./method-index.ts";

/** What is promised of these paths comes later. */
const LATER = [/^\/nodes\/\{node\}\/qemu\/\{vmid\}\/firewall(\/|$)/];

function missing(prefix: string): string[] {
  return (methods as unknown as PveMethod[])
    .filter(({ path }) => path === prefix || path.startsWith(`${prefix}/`))
    .filter((method) => !LATER.some((later) => later.test(method.path)) && !isImplemented(method))
    .map(({ method, path }) => `${method} ${path}`);
}

it.each([
  "/nodes/{node}/qemu",
  "/storage",
  "/nodes/{node}/storage",
  "/nodes/{node}/vzdump",
  "/cluster/backup",
])("every method below %s is there", (prefix) => expect(missing(prefix)).toEqual([]));
