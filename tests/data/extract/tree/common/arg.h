#pragma once
#define PRESET_KETTLE "__PRESET_KETTLE"
