import { expect, test } from "vitest";
import { blockDevice } from "./block-device.ts";

test.each([
  ["/dev/null", "not a valid block device"],
  ["/dev/nothing/there", "not a valid block device"],
  ["/dev/../etc", "got unusual device path '/etc'"],
])("%s is none: %s", (path, why) => expect(() => blockDevice(path)).toThrow(why));
