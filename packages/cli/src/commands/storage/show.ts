import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const storageShow: CommandSpec = {
  name: "storage show",
  summary: "show the definition of a storage",
  arguments: [{ name: "<storage>", about: "the storage's name" }],
  doing: (input) => `show storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const definition = await pve.get("/storage/{storage}", { storage: input.arg("storage") });
    const known = ["storage", "type", "path", "content", "nodes"];
    const rest = Object.keys(isObject(definition) ? definition : {})
      .filter((key) => !known.includes(key) && key !== "digest")
      .toSorted();
    cli.out.facts(
      definition,
      [...known, ...rest].map((field) => ({
        header: field.charAt(0).toUpperCase() + field.slice(1),
        field,
      })),
    );
  },
};
