package main

import (
	"encoding/json"
	"os"

	"gopkg.in/ini.v1"
)

// readIni reads a list of texts from standard input, as the installer reads a credentials file, and answers with what it
// found in each: sections, keys and values, or nothing where it was refused.
func readIni() error {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		return err
	}
	answers := make([]map[string]map[string]string, len(texts))
	for at, text := range texts {
		file, err := ini.Load([]byte(text))
		if err != nil {
			continue
		}
		found := map[string]map[string]string{}
		for _, section := range file.Sections() {
			values := map[string]string{}
			for _, who := range []string{"", "machine-api.", "csi-driver.", "cloud-controller.", "diagnostics."} {
				for _, key := range []string{who + "user", who + "password"} {
					if section.HasKey(key) {
						values[key] = section.Key(key).String()
					}
				}
			}
			found[section.Name()] = values
		}
		answers[at] = found
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}
