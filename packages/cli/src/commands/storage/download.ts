import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { checksumOf, checksumOption, contentOfName, contentOption } from "./checksum-option.ts";
import { nodeOf, nodeOption } from "./node-of.ts";

export const storageDownload: CommandSpec = {
  name: "storage download",
  summary: "let a node fetch a file by its URL",
  arguments: [
    { name: "<storage>", about: "the storage's name" },
    { name: "<url>", about: "http:// or https://" },
  ],
  options: [
    nodeOption,
    contentOption,
    { flags: "--name <name>", about: "how it is called there (as the server calls it)" },
    checksumOption,
    {
      flags: "--compression <method>",
      about: "unpack it after the checksum was checked",
      choices: ["gz", "lzo", "zst", "bz2"],
    },
    { flags: "--insecure", about: "do not check the server's certificate" },
    noWaitOption,
  ],
  examples: ["storage download local https://example.org/debian.iso --checksum sha256:9f86…"],
  doing: (input) => `download ${input.arg("url")} to storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const storage = input.arg("storage");
    const url = input.arg("url");
    const { pve } = await cli.client();
    const node = await nodeOf(cli, input);
    const verify = input.flag("insecure") ? { "verify-certificates": false } : {};
    const compression = input.text("compression");
    let name = input.text("name");
    if (name === undefined) {
      const facts = await pve.get("/nodes/{node}/query-url-metadata", { node, url, ...verify });
      const stated = isObject(facts) ? facts["filename"] : undefined;
      if (typeof stated !== "string") {
        throw new AppError("request.invalid", "the URL names no file: say what to call it with --name");
      }
      name = compression === undefined ? stated : stated.replace(new RegExp(`\\.${compression}$`), "");
    }
    const answer = await pve.post("/nodes/{node}/storage/{storage}/download-url", {
      node,
      storage,
      url,
      filename: name,
      content: contentOfName(input.text("content"), name),
      ...checksumOf(input.text("checksum")),
      ...given({ compression }),
      ...verify,
    });
    await finishWork(cli, input, answer, `Downloaded ${name} to storage ${storage}.`);
  },
};
