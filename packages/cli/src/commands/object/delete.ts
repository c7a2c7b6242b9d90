import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { fileOption, readManifests } from "./manifests.ts";
import { objectPlace } from "./named-object.ts";

export const objectDelete: CommandSpec = {
  name: "delete",
  summary: "delete objects by kind and name, or those that files name",
  arguments: [
    { name: "[kind]", about: "such as tenant, user, binding" },
    { name: "[names...]", about: "the objects' names; VMs by VMID or name" },
  ],
  options: [fileOption, { flags: "--ignore-not-found", about: "what is gone already is no error" }],
  examples: ["delete tenant dev", "delete -f cluster.yaml --ignore-not-found"],
  doing: (input) => `delete ${[input.optionalArg("kind") ?? "objects", ...input.args("names")].join(" ")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    for (const { kind, name } of await wanted(cli, input)) {
      const known = await client.v1.kind(kind);
      try {
        const place = await objectPlace(client, known, name);
        await client.v1.delete(place.collection, place.name, { signal: cli.signal });
        cli.out.done(`Deleted ${kind} ${name}.`);
      } catch (err) {
        if (!input.flag("ignoreNotFound") || !isAppError(err, "object.not_found")) throw err;
        cli.out.done(`${kind} ${name} is gone already.`);
      }
    }
  },
};

async function wanted(cli: Cli, input: Input): Promise<readonly { kind: string; name: string }[]> {
  const kind = input.optionalArg("kind");
  const names = input.args("names");
  if (kind !== undefined && names.length > 0) return names.map((name) => ({ kind, name }));
  if (kind !== undefined || input.texts("file").length === 0) {
    throw new AppError("request.invalid", "name a kind and at least one object, or a file with -f");
  }
  const { v1 } = await cli.client();
  // The server knows the order in which objects are made, and names that follow from spec; last made goes first.
  const { items } = await v1.plan(await readManifests(cli, input), { signal: cli.signal });
  const nameless = items.find((item) => item.name === "");
  if (nameless !== undefined) {
    throw new AppError("request.invalid", `a ${nameless.kind} in the files has no name`);
  }
  return items.toReversed().map(({ kind: of, name, namespace }) => ({
    kind: of,
    name: namespace === undefined ? name : `${namespace}/${name}`,
  }));
}
