// `image pull` and `image build`: both end with an image in a storage, and differ in where it comes from.
import { isObject } from "@gpve/client/response-error.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import type { Input } from "../../input.ts";
import { serverDefaults } from "../vm/server-defaults.ts";
import { chosenNode, nodeOption, storageOption, storageQuery } from "./image-target.ts";

export const imagePull: CommandSpec = {
  name: "image pull",
  summary: "fetch a cloud image and check it against its publisher's checksums",
  arguments: [{ name: "<image>", about: "a name from `image list`" }],
  options: [nodeOption, storageOption, noWaitOption],
  examples: ["image pull debian12", "image pull alpine --node n1 --storage local"],
  doing: (input) => `pull image ${input.arg("image")}`,
  run: (cli, input) => make(cli, input, "pull"),
};

export const imageBuild: CommandSpec = {
  name: "image build",
  summary: "build an image from Debian packages",
  details:
    "`tiny` is a Linux that boots in seconds; `lb` a load balancer's machine for Talos clusters; `debian` a full one with cloud-init and guest agent, which takes minutes. What was built before and would not differ is reused.",
  arguments: [{ name: "<image>", about: "tiny, lb, debian, or a name from `image list` that can be built" }],
  options: [nodeOption, storageOption, noWaitOption],
  examples: ["image build tiny", "image build debian --no-wait"],
  doing: (input) => `build image ${input.arg("image")}`,
  run: (cli, input) => make(cli, input, "build"),
};

async function make(cli: Cli, input: Input, verb: "pull" | "build"): Promise<void> {
  const image = input.arg("image");
  const client = await cli.client();
  const node = await chosenNode(client, input);
  const path = `nodes/${encodeURIComponent(node)}/images/${encodeURIComponent(image)}/${verb}${storageQuery(input)}`;
  const answer = await client.v1.post(path, undefined);
  const task = isObject(answer) ? answer["task"] : undefined;
  const storage = input.text("storage") ?? (await serverDefaults(client, node)).iso;
  await finishWork(cli, input, task, `Image ${image} is on ${node}: ${storage}:import/${image}.qcow2`);
}
