// Writes docs/reference/roles.md from the tables. A test fails when it is out of date.
import { writeFileSync } from "node:fs";
import { rolesPage } from "@gpve/domain/access/roles-page.ts";

writeFileSync("docs/reference/roles.md", rolesPage());
