// Writes docs/reference/gpvectl.md from the command tree. A test fails when it is out of date.
import { writeFileSync } from "node:fs";
import { allCommands } from "../../packages/cli/src/commands.ts";
import { referencePage } from "../../packages/cli/src/reference-page.ts";

writeFileSync("docs/reference/gpvectl.md", referencePage(allCommands));
